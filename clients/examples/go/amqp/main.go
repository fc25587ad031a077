// Publishes a message with a delay, consumes it when it is due, and records the ack: plain AMQP, without a bridge's API.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

func main() {
	topic := os.Getenv("TOPIC")
	connection, err := amqp.Dial(os.Getenv("AMQP_URL"))
	check(err)
	defer connection.Close()
	channel, err := connection.Channel()
	check(err)
	check(channel.Confirm(false))
	check(channel.Qos(10, 0, false))

	id := fmt.Sprintf("order-%d", time.Now().UnixNano())
	message := amqp.Publishing{
		MessageId:    id,
		DeliveryMode: amqp.Persistent,
		ContentType:  "application/json",
		Body:         []byte(`{"order":1001}`),
	}
	// The key is the delay, digit by digit: days (3), hours, minutes, seconds, tenths of a second. Here: one second.
	publish(channel, "delay", "0.0.0.0.0.1.0."+topic, message)
	fmt.Println("sent", id)

	deliveries, err := channel.Consume("ready."+topic, "", false, false, false, false, nil)
	check(err)
	for got := range deliveries {
		fmt.Println("got", got.MessageId, string(got.Body))
		// Tells the bridge, so that the message's record says acked. The broker's ack comes last.
		publish(channel, "delay.done", topic, amqp.Publishing{MessageId: got.MessageId})
		check(got.Ack(false))
		fmt.Println("acked", got.MessageId)
		if got.MessageId == id {
			return
		}
	}
	log.Fatal("the connection was closed")
}

// publish returns when RabbitMQ has confirmed the message.
func publish(channel *amqp.Channel, exchange, key string, message amqp.Publishing) {
	limit, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	confirm, err := channel.PublishWithDeferredConfirmWithContext(limit, exchange, key, true, false, message)
	check(err)
	if !confirm.Wait() {
		log.Fatal("RabbitMQ did not take the message")
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

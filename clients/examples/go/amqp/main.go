// Publishes two messages with a delay, consumes them when they are due, and records the acks: plain AMQP, no HTTP.
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
	confirms := channel.NotifyPublish(make(chan amqp.Confirmation, 1))
	check(channel.Qos(10, 0, false))

	message := amqp.Publishing{
		MessageId:    fmt.Sprintf("order-%d", time.Now().UnixNano()),
		DeliveryMode: amqp.Persistent,
		ContentType:  "application/json",
		Headers:      amqp.Table{"x-delay": 1000}, // milliseconds
		Body:         []byte(`{"order":1001}`),
	}
	// A bridge gives this message a record at once, so that it can be looked up, moved and deleted by its id.
	publish(channel, confirms, "delay.in", topic, message)
	fmt.Println("sent", message.MessageId)

	message.MessageId += "-by-key"
	message.Headers = nil
	// No bridge is involved. The key is the delay, digit by digit: days (3), hours, minutes, seconds, tenths.
	publish(channel, confirms, "delay", "0.0.0.0.0.1.0."+topic, message)
	fmt.Println("sent", message.MessageId)

	deliveries, err := channel.Consume("ready."+topic, "", false, false, false, false, nil)
	check(err)
	left := 2
	for got := range deliveries {
		fmt.Println("got", got.MessageId, string(got.Body))
		// Tells the bridge, so that the message's record says acked. The broker's ack comes last.
		// The moment of creation tells the message apart from another one of its id.
		created := amqp.Table{"x-delay-created": got.Headers["x-delay-created"]}
		publish(channel, confirms, "delay.done", topic, amqp.Publishing{MessageId: got.MessageId, Headers: created})
		check(got.Ack(false))
		fmt.Println("acked", got.MessageId)
		if left--; left == 0 {
			return
		}
	}
	log.Fatal("the connection was closed")
}

// publish returns when RabbitMQ has confirmed the message. It does not use a deferred confirmation: amqp091-go 1.5 loses one
// that comes before the call has returned.
func publish(channel *amqp.Channel, confirms <-chan amqp.Confirmation, exchange, key string, message amqp.Publishing) {
	check(channel.PublishWithContext(context.Background(), exchange, key, true, false, message))
	select {
	case confirm, isOpen := <-confirms:
		if !isOpen {
			log.Fatal("the connection was closed")
		}
		if !confirm.Ack {
			log.Fatal("RabbitMQ did not take the message")
		}
	case <-time.After(10 * time.Second):
		log.Fatal("RabbitMQ did not confirm the message in time")
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

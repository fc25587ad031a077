// Publishes a message with a delay, consumes it when it is due, and records the ack: plain AMQP, without a bridge's API.

import com.rabbitmq.client.AMQP.BasicProperties;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.Delivery;
import java.nio.charset.StandardCharsets;
import java.util.UUID;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;

class AmqpExample {
    public static void main(String[] arguments) throws Exception {
        String topic = System.getenv("TOPIC");
        ConnectionFactory factory = new ConnectionFactory();
        factory.setUri(System.getenv("AMQP_URL"));
        try (Connection connection = factory.newConnection(); Channel channel = connection.createChannel()) {
            channel.confirmSelect();
            channel.basicQos(10);

            String id = "order-" + UUID.randomUUID();
            BasicProperties properties = new BasicProperties.Builder()
                .messageId(id)
                .deliveryMode(2) // persistent
                .contentType("application/json")
                .build();
            byte[] body = "{\"order\":1001}".getBytes(StandardCharsets.UTF_8);
            // The key is the delay, digit by digit: days (3), hours, minutes, seconds, tenths. Here: one second.
            publish(channel, "delay", "0.0.0.0.0.1.0." + topic, properties, body);
            System.out.println("sent " + id);

            BlockingQueue<Delivery> deliveries = new LinkedBlockingQueue<>();
            channel.basicConsume("ready." + topic, false, (tag, got) -> deliveries.add(got), tag -> { });
            for (boolean acked = false; !acked; ) {
                Delivery got = deliveries.take();
                String gotId = got.getProperties().getMessageId();
                System.out.println("got " + gotId + " " + new String(got.getBody(), StandardCharsets.UTF_8));
                // Tells the bridge, so that the message's record says acked. The broker's ack comes last.
                BasicProperties done = new BasicProperties.Builder().messageId(gotId).build();
                publish(channel, "delay.done", topic, done, new byte[0]);
                channel.basicAck(got.getEnvelope().getDeliveryTag(), false);
                System.out.println("acked " + gotId);
                acked = gotId.equals(id);
            }
        }
    }

    /** Returns when RabbitMQ has confirmed the message. */
    static void publish(Channel channel, String exchange, String key, BasicProperties properties, byte[] body)
            throws Exception {
        channel.basicPublish(exchange, key, true, properties, body);
        channel.waitForConfirmsOrDie(10_000);
    }
}

// Publishes two messages with a delay, consumes them when they are due, and records the acks: plain AMQP, no HTTP.

import com.rabbitmq.client.AMQP.BasicProperties;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.Delivery;
import java.nio.charset.StandardCharsets;
import java.util.Map;
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
            byte[] body = "{\"order\":1001}".getBytes(StandardCharsets.UTF_8);
            BasicProperties.Builder properties = new BasicProperties.Builder()
                .deliveryMode(2) // persistent
                .contentType("application/json");
            // A bridge gives this message a record at once, so that it can be looked up, moved and deleted by its id.
            BasicProperties later = properties.messageId(id).headers(Map.of("x-delay", 1_000)).build(); // milliseconds
            publish(channel, "delay.in", topic, later, body);
            System.out.println("sent " + id);

            // No bridge is involved. The key is the delay, digit by digit: days (3), hours, minutes, seconds, tenths.
            BasicProperties byKey = properties.messageId(id + "-by-key").headers(null).build();
            publish(channel, "delay", "0.0.0.0.0.1.0." + topic, byKey, body);
            System.out.println("sent " + id + "-by-key");

            BlockingQueue<Delivery> deliveries = new LinkedBlockingQueue<>();
            channel.basicConsume("ready." + topic, false, (tag, got) -> deliveries.add(got), tag -> { });
            for (int left = 2; left > 0; left--) {
                Delivery got = deliveries.take();
                String gotId = got.getProperties().getMessageId();
                System.out.println("got " + gotId + " " + new String(got.getBody(), StandardCharsets.UTF_8));
                // Tells the bridge, so that the message's record says acked. The broker's ack comes last.
                // The moment of creation tells the message apart from another one of its id.
                Map<String, Object> created =
                    Map.of("x-delay-created", got.getProperties().getHeaders().get("x-delay-created"));
                BasicProperties done = new BasicProperties.Builder().messageId(gotId).headers(created).build();
                publish(channel, "delay.done", topic, done, new byte[0]);
                channel.basicAck(got.getEnvelope().getDeliveryTag(), false);
                System.out.println("acked " + gotId);
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

// Publishes as applications with MassTransit do: the queue has an exchange of its name, the delayed exchange is bound to
// that exchange, and a scheduled message has its delay as a Long.

import com.rabbitmq.client.AMQP.BasicProperties;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import java.util.Map;

class MassTransit {
    public static void main(String[] arguments) throws Exception {
        Map<String, String> given = System.getenv();
        ConnectionFactory factory = new ConnectionFactory();
        factory.setUri(given.get("AMQP_URL"));
        try (Connection connection = factory.newConnection(); Channel channel = connection.createChannel()) {
            channel.confirmSelect();
            if (given.containsKey("DECLARES")) {
                Map<String, Object> kind = Map.of("x-delayed-type", given.get("KIND"));
                channel.exchangeDeclare(given.get("QUEUE"), "fanout", true, false, null);
                channel.queueDeclare(given.get("QUEUE"), true, false, false, null);
                channel.queueBind(given.get("QUEUE"), given.get("QUEUE"), "", null);
                channel.exchangeDeclare(given.get("EXCHANGE"), "x-delayed-message", true, false, kind);
                channel.exchangeBind(given.get("QUEUE"), given.get("EXCHANGE"), given.get("KEY"), null);
            }
            for (int number = 0; number < Integer.parseInt(given.get("COUNT")); number++) {
                long delay = Long.parseLong(given.get("DELAY_MS")) + 50L * number;
                BasicProperties properties = new BasicProperties.Builder()
                    .headers(Map.of("x-delay", delay, "Content-Type", "application/vnd.masstransit+json"))
                    .contentType("application/vnd.masstransit+json")
                    .messageId(java.util.UUID.randomUUID().toString())
                    .deliveryMode(2)
                    .build();
                String body = "at:" + number + ":" + System.currentTimeMillis() + ":" + delay;
                channel.basicPublish(given.get("PUBLISH_TO"), given.get("KEY"), true, properties, body.getBytes());
            }
            channel.waitForConfirmsOrDie(30_000);
        }
    }
}

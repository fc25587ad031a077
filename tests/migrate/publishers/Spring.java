// Publishes as applications with Spring AMQP do: RabbitAdmin declares a CustomExchange, a queue and a binding on a channel
// of its own, RabbitTemplate publishes on another, with MessageProperties.setDelay as an Integer.

import com.rabbitmq.client.AMQP.BasicProperties;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import java.util.Map;

class Spring {
    public static void main(String[] arguments) throws Exception {
        Map<String, String> given = System.getenv();
        ConnectionFactory factory = new ConnectionFactory();
        factory.setUri(given.get("AMQP_URL"));
        try (Connection connection = factory.newConnection("rabbitConnectionFactory")) {
            if (given.containsKey("DECLARES")) {
                try (Channel admin = connection.createChannel()) {
                    Map<String, Object> kind = Map.of("x-delayed-type", given.get("KIND"));
                    admin.exchangeDeclare(given.get("EXCHANGE"), "x-delayed-message", true, false, kind);
                    admin.queueDeclare(given.get("QUEUE"), true, false, false, null);
                    admin.queueBind(given.get("QUEUE"), given.get("EXCHANGE"), given.get("KEY"), null);
                }
            }
            Channel template = connection.createChannel();
            template.confirmSelect();
            for (int number = 0; number < Integer.parseInt(given.get("COUNT")); number++) {
                int delay = Integer.parseInt(given.get("DELAY_MS")) + 50 * number;
                BasicProperties properties = new BasicProperties.Builder()
                    .headers(Map.of("x-delay", delay))
                    .contentType("text/plain")
                    .contentEncoding("UTF-8")
                    .deliveryMode(2)
                    .priority(0)
                    .build();
                String body = "at:" + number + ":" + System.currentTimeMillis() + ":" + delay;
                template.basicPublish(given.get("PUBLISH_TO"), given.get("KEY"), true, properties, body.getBytes());
            }
            template.waitForConfirmsOrDie(30_000);
        }
    }
}

// Sends a message with a delay, pulls it when it is due, and acks it: plain HTTP, with Jackson for JSON.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.Map;
import java.util.UUID;

class HttpExample {
    static final HttpClient HTTP = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
    static final ObjectMapper JSON = new ObjectMapper();
    static final String TOPIC = System.getenv("DELAYBRIDGE_URL") + "/v1/topics/" + encoded(System.getenv("TOPIC"));

    public static void main(String[] arguments) throws Exception {
        String id = "order-" + UUID.randomUUID();
        // If the answer is lost, send again with the same id: it makes no second message.
        JsonNode sent = post("/messages", Map.of("id", id, "body", Map.of("order", 1001), "delay", "1s"));
        System.out.println("sent " + id + " due " + Instant.parse(sent.get("due_at").asText()));

        for (boolean acked = false; !acked; ) {
            JsonNode pulled = post("/pull", Map.of("max", 10, "wait", "20s", "lease", "30s"));
            for (JsonNode got : pulled.get("messages")) {
                String gotId = got.get("id").asText();
                System.out.println("got " + gotId + " " + got.get("body"));
                // The receipt names this delivery alone, so a late ack can't end a later one.
                post("/messages/" + encoded(gotId) + "/ack", Map.of("receipt", got.get("receipt").asText()));
                System.out.println("acked " + gotId);
                acked |= gotId.equals(id);
            }
        }
    }

    /** Sends JSON and returns the answer. With tokens, add the header Authorization: Bearer <token>. */
    static JsonNode post(String path, Object body) throws Exception {
        HttpRequest request = HttpRequest.newBuilder(URI.create(TOPIC + path))
            .header("Content-Type", "application/json")
            .POST(BodyPublishers.ofString(JSON.writeValueAsString(body)))
            .build();
        HttpResponse<String> response = HTTP.send(request, BodyHandlers.ofString());
        if (response.statusCode() >= 300) {
            // A problem by RFC 9457; 503 has Retry-After.
            throw new IllegalStateException(response.statusCode() + ": " + response.body());
        }
        return JSON.readTree(response.body());
    }

    static String encoded(String part) {
        return URLEncoder.encode(part, StandardCharsets.UTF_8).replace("+", "%20");
    }
}

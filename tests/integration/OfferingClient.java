// Makes requests with the JDK's client as its defaults are: each request offers HTTP/2 with `Upgrade: h2c`.
// In: a line for each request, with tabs between method, URL, content type, framing and the body in Base64.
// Out: a line for each answer, with a tab between the status and the body in Base64.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse.BodyHandlers;
import java.util.Base64;

public class OfferingClient {
    public static void main(String[] arguments) throws Exception {
        var client = HttpClient.newHttpClient();
        var requests = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = requests.readLine()) != null; ) {
            var request = line.split("\t", -1);
            var body = BodyPublishers.ofByteArray(Base64.getDecoder().decode(request[4]));
            var framed = request[3].equals("chunked") ? BodyPublishers.fromPublisher(body) : body;
            var answer = client.send(
                    HttpRequest.newBuilder(URI.create(request[1]))
                            .header("Content-Type", request[2]).method(request[0], framed).build(),
                    BodyHandlers.ofByteArray());
            System.out.println(answer.statusCode() + "\t" + Base64.getEncoder().encodeToString(answer.body()));
        }
    }
}

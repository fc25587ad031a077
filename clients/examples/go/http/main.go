// Sends a message with a delay, pulls it when it is due, and acks it: plain HTTP, with the standard library alone.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/url"
	"os"
	"time"
)

type message struct {
	ID      string          `json:"id"`
	Body    json.RawMessage `json:"body"`
	DueAt   time.Time       `json:"due_at"`
	Receipt string          `json:"receipt"` // names this delivery alone
}

var topic = os.Getenv("DELAYBRIDGE_URL") + "/v1/topics/" + url.PathEscape(os.Getenv("TOPIC"))

func main() {
	id := fmt.Sprintf("order-%d", time.Now().UnixNano())
	var sent message
	// If the answer is lost, send again with the same id: it makes no second message.
	post("/messages", map[string]any{"id": id, "body": map[string]any{"order": 1001}, "delay": "1s"}, &sent)
	fmt.Println("sent", sent.ID, "due", sent.DueAt.Format(time.RFC3339Nano))

	for {
		var pulled struct{ Messages []message }
		post("/pull", map[string]any{"max": 10, "wait": "20s", "lease": "30s"}, &pulled)
		for _, got := range pulled.Messages {
			fmt.Println("got", got.ID, string(got.Body))
			post("/messages/"+url.PathEscape(got.ID)+"/ack", map[string]any{"receipt": got.Receipt}, nil)
			fmt.Println("acked", got.ID)
			if got.ID == id {
				return
			}
		}
	}
}

// post sends JSON and reads the answer into `answer`. With tokens, set the header Authorization: Bearer <token>.
func post(path string, body any, answer any) {
	given, err := json.Marshal(body)
	if err != nil {
		log.Fatal(err)
	}
	response, err := http.Post(topic+path, "application/json", bytes.NewReader(given))
	if err != nil {
		log.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		log.Fatal(err)
	}
	if response.StatusCode >= 300 {
		log.Fatalf("%s: %s", response.Status, text) // a problem by RFC 9457; 503 has Retry-After
	}
	if answer != nil {
		if err := json.Unmarshal(text, answer); err != nil {
			log.Fatal(err)
		}
	}
}

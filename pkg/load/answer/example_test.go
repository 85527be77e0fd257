package answer_test

import (
	"fmt"
	"log"

	"github.com/profllm/profllm/pkg/load/answer"
)

// An answer that arrives in two reads, cut anywhere.
func Example() {
	const head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
	const body = "data: {\"choices\":[{\"text\":\"Hel\"}]}\n\n" +
		"data: {\"choices\":[{\"text\":\"lo\",\"finish_reason\":\"length\"}]}\n\n" +
		"data: {\"choices\":[],\"usage\":{\"prompt_tokens\":4,\"completion_tokens\":2}}\n\n" +
		"data: [DONE]\n\n"
	var outcome answer.Outcome
	var r answer.Reader
	r.Reset(&outcome, answer.Wanted{Tokens: 2, Text: true})
	for i, read := range []string{head + body[:40], body[40:]} {
		if _, err := r.Feed([]byte(read), int64(100*i)); err != nil {
			log.Fatal(err)
		}
	}
	r.Close(200, r.EOF())
	fmt.Printf("%t %q %v\n", outcome.State == answer.Completed, outcome.Text, outcome.Tokens)
	// Output:
	// true "Hello" [0 100]
}

// Package answertest has the answers of a streaming server, for tests.
package answertest

import (
	"fmt"
	"strings"
)

// Events of a stream: a token, the usage, the end, an error.
const (
	TokenEvent = `data: {"id":"cmpl-1","object":"text_completion","created":1,"model":"m","choices":[{"index":0,"text":"a","finish_reason":null}],"usage":null}` + "\n\n"
	UsageEvent = `data: {"id":"cmpl-1","choices":[],"usage":{"prompt_tokens":7,"total_tokens":9,"completion_tokens":2}}` + "\n\n"
	DoneEvent  = "data: [DONE]\n\n"
	ErrorEvent = `data: {"error":{"message":"engine is dead","type":"InternalServerError","code":500}}` + "\n\n"
)

// Finishing returns a token event with that finish_reason.
func Finishing(reason string) string {
	return `data: {"id":"cmpl-1","choices":[{"index":0,"text":"b","finish_reason":` + reason +
		`,"stop_reason":null}],"usage":null}` + "\n\n"
}

// LastEvent is the last token event of an answer that reached its length.
var LastEvent = Finishing(`"length"`)

// Counting returns a usage event with that many prompt and completion tokens, as JSON.
func Counting(prompt, completion string) string {
	return fmt.Sprintf(`data: {"id":"cmpl-1","choices":[],"usage":{"prompt_tokens":%s,"total_tokens":9,"completion_tokens":%s}}`+"\n\n", prompt, completion)
}

// Chunked is an HTTP answer whose body has these chunks.
func Chunked(parts ...string) string {
	var b strings.Builder
	b.WriteString("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
	for _, p := range parts {
		fmt.Fprintf(&b, "%x\r\n%s\r\n", len(p), p)
	}
	b.WriteString("0\r\n\r\n")
	return b.String()
}

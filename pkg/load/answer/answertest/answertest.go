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

// Events of a stream of the Responses API, as vLLM sends them: what comes before the first token, a
// text, reasoning, what frames a text, an error of OpenAI's.
const (
	CreatedEvent   = "event: response.created\n" + `data: {"response":{"id":"resp_1","incomplete_details":null,"object":"response","output":[],"status":"in_progress","usage":null,"error":null},"sequence_number":0,"type":"response.created"}` + "\n\n"
	DeltaEvent     = "event: response.output_text.delta\n" + `data: {"content_index":0,"delta":"a","item_id":"msg_1","logprobs":[],"output_index":0,"sequence_number":4,"type":"response.output_text.delta"}` + "\n\n"
	ReasoningEvent = "event: response.reasoning_text.delta\n" + `data: {"content_index":0,"delta":"hm","item_id":"msg_1","output_index":0,"sequence_number":4,"type":"response.reasoning_text.delta"}` + "\n\n"
	TextDoneEvent  = "event: response.output_text.done\n" + `data: {"content_index":0,"item_id":"msg_1","output_index":0,"sequence_number":6,"text":"aa","type":"response.output_text.done"}` + "\n\n"
	FailedEvent    = "event: response.failed\n" + `data: {"type":"response.failed","response":{"id":"resp_1","status":"failed","error":{"code":"server_error","message":"engine is dead"}}}` + "\n\n"
)

// Completed returns the event that ends a response of that status, with why it is incomplete and its
// usage, as JSON.
func Completed(status, reason, usage string) string {
	return fmt.Sprintf("event: response.completed\n"+`data: {"response":{"id":"resp_1","incomplete_details":%s,"object":"response","output":[{"type":"message"}],"status":%q,"usage":%s},"sequence_number":9,"type":"response.completed"}`+"\n\n", reason, status, usage)
}

// Usage of a response of two tokens.
const Usage = `{"input_tokens":7,"output_tokens":2,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":9}`

// CompletedEvent ends a response that reached its length, as vLLM 0.32 does.
var CompletedEvent = Completed("incomplete", `{"reason":"max_output_tokens"}`, Usage)

// Documents as vLLM answers with them.
const (
	Embeddings = `{"id":"embd-1","object":"list","created":1,"model":"m","data":[{"index":0,"object":"embedding","embedding":[0.5,-1e-3]},{"index":1,"object":"embedding","embedding":[1,2]}],"usage":{"prompt_tokens":7,"total_tokens":7,"completion_tokens":0}}`
	Ranks      = `{"id":"score-1","model":"m","usage":{"prompt_tokens":13,"total_tokens":13},"results":[{"index":0,"document":{"text":"x \"}]","multi_modal":null},"relevance_score":0.1}]}`
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

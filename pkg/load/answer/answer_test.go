package answer

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math/bits"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/profllm/profllm/pkg/load/answer/answertest"
	"github.com/stretchr/testify/require"
)

const (
	roleEvent  = `data: {"id":"1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}` + "\n\n"
	deltaEvent = `data: {"id":"1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"é\n"}}]}` +
		"\n\n"
)

// asked is how many tokens the requests of these tests ask for.
const asked = 2

// readAll feeds body to a stream in pieces of that size; the time is the number of bytes fed.
func readAll(body string, size int) Outcome {
	var o Outcome
	var s stream
	s.reset(&o, Wanted{Tokens: asked, Text: true})
	for i := 0; i < len(body); i += size {
		end := min(i+size, len(body))
		s.feed([]byte(body[i:end]), int64(end))
	}
	s.close(int64(len(body)))
	s.settle("")
	return o
}

// What servers rightly send: vLLM 0.32 first (vllm/entrypoints/openai), then its like.
func TestStreamThatIsWhole(t *testing.T) {
	whole := answertest.TokenEvent + answertest.LastEvent + answertest.UsageEvent + answertest.DoneEvent
	tests := map[string]struct {
		body   string
		events int
		input  int
		output int
		text   string
	}{
		"tokens and usage":           {whole, 2, 7, 2, "ab"},
		"no usage":                   {answertest.TokenEvent + answertest.TokenEvent + answertest.LastEvent + answertest.DoneEvent, 3, 0, 3, "aab"},
		"no usage, chat":             {roleEvent + deltaEvent + answertest.LastEvent + answertest.DoneEvent, 2, 0, 2, "é\nb"},
		"usage without completion":   {answertest.LastEvent + `data: {"choices":[],"usage":{"prompt_tokens":7}}` + "\n\n" + answertest.DoneEvent, 1, 7, 1, "b"},
		"no done":                    {answertest.TokenEvent + answertest.LastEvent + answertest.UsageEvent, 2, 7, 2, "ab"},
		"no finish_reason":           {answertest.TokenEvent + answertest.TokenEvent + answertest.UsageEvent + answertest.DoneEvent, 2, 7, 2, "aa"},
		"no empty line at the end":   {answertest.TokenEvent + answertest.LastEvent + strings.TrimSpace(answertest.UsageEvent), 2, 7, 2, "ab"},
		"done twice":                 {whole + answertest.DoneEvent, 2, 7, 2, "ab"},
		"CRLF":                       {strings.ReplaceAll(whole, "\n", "\r\n"), 2, 7, 2, "ab"},
		"a byte order mark":          {"\xef\xbb\xbf" + whole, 2, 7, 2, "ab"},
		"keep-alive comments":        {": ping\n\n" + answertest.TokenEvent + ":\n\n" + answertest.LastEvent + ": pong\n\n" + answertest.UsageEvent + answertest.DoneEvent + ": bye\n\n", 2, 7, 2, "ab"},
		"event, id and retry fields": {"event: message\nid: 4\nretry: 10\n" + whole, 2, 7, 2, "ab"},
		"data without payload":       {"data:\n\ndata\n\n" + whole, 2, 7, 2, "ab"},
		"no space after the colon":   {strings.ReplaceAll(whole, "data: ", "data:"), 2, 7, 2, "ab"},
		"a role is no token":         {roleEvent + deltaEvent + answertest.LastEvent + answertest.UsageEvent + answertest.DoneEvent, 2, 7, 2, "é\nb"},
		"empty deltas": {
			roleEvent + `data: {"choices":[{"index":0,"delta":{}}]}` + "\n\n" +
				`data: {"choices":[{"index":0,"delta":{"content":null,"reasoning":"hm"}}]}` +
				"\n\n" + `data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n" + answertest.UsageEvent + answertest.DoneEvent, 2, 7, 2, "", // the second of two was not sent: the end stands for it
		},
		"two data lines of one event": {
			"data: {\"choices\":[{\"text\":\ndata: \"x\",\"finish_reason\":\"stop\"}]}\n\n" + answertest.UsageEvent, 1, 7, 2, "x",
		},
		"several tokens in one event": {answertest.LastEvent + answertest.UsageEvent + answertest.DoneEvent, 1, 7, 2, "b"},
		"a draft beyond the limit":    {answertest.LastEvent + answertest.Counting("7", "6") + answertest.DoneEvent, 1, 7, 6, "b"},
		"continuous usage": {
			`data: {"choices":[{"delta":{"role":"assistant","content":""}}],"usage":{"prompt_tokens":7,"completion_tokens":0}}` + "\n\n" +
				`data: {"choices":[{"delta":{"content":"b"},"finish_reason":"stop"}],"usage":{"prompt_tokens":7,"completion_tokens":1}}` + "\n\n" + answertest.DoneEvent, 1, 7, 1, "b",
		},
		"choices empty or null":      {`data: {"choices":[],"prompt_filter_results":[]}` + "\n\n" + `data: {"choices":null,"usage":null}` + "\n\n" + whole, 2, 7, 2, "ab"},
		"error is null":              {`data: {"error":null,"choices":[{"text":"a"}]}` + "\n\n" + answertest.LastEvent + answertest.UsageEvent + answertest.DoneEvent, 2, 7, 2, "ab"},
		"the word choices as a text": {`data: {"x":"choices","choices" : [ {"text":"choices","finish_reason":"stop"}]}` + "\n\n" + answertest.DoneEvent, 1, 0, 1, "choices"},
		"keys inside a text":         {`data: {"id":"\"error\":{","choices":[{"text":"\"usage\":{\"error\":1"}]}` + "\n\n" + answertest.LastEvent + answertest.UsageEvent + answertest.DoneEvent, 2, 7, 2, `"usage":{"error":1b`},
		"tokens as keys": {
			`data: {"choices":[{"text":"a","logprobs":{"top_logprobs":[{"error":-1.5,"usage":-2,"choices":-Infinity,"finish_reason":NaN}]}}],"usage":null}` +
				"\n\n" + answertest.LastEvent + answertest.UsageEvent + answertest.DoneEvent, 2, 7, 2, "ab",
		},
		"a reason that is empty so far": {answertest.Finishing(`""`) + answertest.LastEvent + answertest.UsageEvent + answertest.DoneEvent, 2, 7, 2, "bb"},
		"stop":                          {answertest.Finishing(`"stop"`) + answertest.UsageEvent + answertest.DoneEvent, 1, 7, 2, "b"},
		"tool calls":                    {answertest.Finishing(`"tool_calls"`) + answertest.UsageEvent + answertest.DoneEvent, 1, 7, 2, "b"},
		"repetition":                    {answertest.Finishing(`"repetition"`) + answertest.UsageEvent + answertest.DoneEvent, 1, 7, 2, "b"},
		"fewer asked":                   {answertest.Finishing(`"stop"`) + answertest.Counting("7", "1") + answertest.DoneEvent, 1, 7, 1, "b"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			for _, size := range []int{1 << 20, 1, 3, 64} {
				o := readAll(tt.body, size)
				require.Equal(t, Completed, o.State, "%s", o.Err)
				require.Len(t, o.Tokens, tt.events)
				require.Equal(t, tt.input, o.Input)
				require.Equal(t, tt.output, o.Output)
				require.Equal(t, tt.text, o.Text)
			}
		})
	}
}

// Which events are tokens, by the time at which each ends. What announces an answer or ends it is none, whoever sends it;
// an empty text is one where the server counts it.
//
// covers: LBEN-1
func TestTokenEvents(t *testing.T) {
	const (
		role   = `{"choices":[{"delta":{"role":"assistant","content":""}}]}`
		bare   = `{"choices":[{"delta":{}}]}`
		null   = `{"choices":[{"delta":{"role":"assistant","content":null}}]}`
		chat   = `{"choices":[{"delta":{"content":"a"}}]}`
		empty  = `{"choices":[{"delta":{"content":""}}]}`
		thinks = `{"choices":[{"delta":{"reasoning_content":"a"}}]}`
		names  = `{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"name":"f","arguments":""}}]}}]}`
		calls  = `{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"a"}}]}}]}`
		none   = `{"choices":[{"delta":{"content":null,"reasoning_content":null,"tool_calls":[]}}]}`
		stops  = `{"choices":[{"delta":{},"finish_reason":"stop"}]}`
		text   = `{"choices":[{"text":"a"}]}`
		blank  = `{"choices":[{"text":""}]}`
		ends   = `{"choices":[{"text":"","finish_reason":"length"}]}`
		closes = `{"choices":[{"text":"a","finish_reason":"length"}]}`
	)
	for name, tt := range map[string]struct {
		events []string
		n      int // of the server's usage; 0 without one
		tokens []int64
	}{
		"a role before the text":                      {[]string{role, chat, chat, stops}, 2, []int64{1, 2}},
		"the same without usage":                      {[]string{role, chat, chat, stops}, 0, []int64{1, 2}},
		"a role without content":                      {[]string{null, chat, chat, stops}, 2, []int64{1, 2}},
		"an empty delta":                              {[]string{bare, chat, bare, chat, stops}, 2, []int64{1, 3}},
		"nothing but nulls":                           {[]string{none, chat, none, chat, stops}, 2, []int64{1, 3}},
		"an empty text that announces":                {[]string{empty, chat, chat, stops}, 2, []int64{1, 2}},
		"a special token first":                       {[]string{role, empty, chat, stops}, 2, []int64{1, 2}},
		"special tokens between":                      {[]string{chat, empty, empty, chat, stops}, 4, []int64{0, 1, 2, 3}},
		"a token that ends and is not sent":           {[]string{role, chat, chat, stops}, 3, []int64{1, 2, 3}},
		"several tokens in an event":                  {[]string{chat, chat, stops}, 8, []int64{0, 1}},
		"reasoning":                                   {[]string{role, thinks, thinks, chat, stops}, 3, []int64{1, 2, 3}},
		"a tool call":                                 {[]string{role, names, calls, calls, stops}, 3, []int64{1, 2, 3}},
		"completions, an end of its own":              {[]string{text, text, ends}, 2, []int64{0, 1}},
		"completions, the end with the last text":     {[]string{text, closes}, 2, []int64{0, 1}},
		"completions, a special token last":           {[]string{text, text, ends}, 3, []int64{0, 1, 2}},
		"completions, a special token first and last": {[]string{blank, text, ends}, 3, []int64{0, 1, 2}},
		"nothing but special tokens":                  {[]string{blank, blank, ends}, 3, []int64{0, 1, 2}},
		"usage with an empty text behind the end":     {[]string{text, text, ends, blank}, 2, []int64{0, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			var o Outcome
			var s stream
			s.reset(&o, Wanted{Tokens: 8})
			for i, e := range tt.events {
				s.feed([]byte("data: "+e+"\n\n"), int64(i))
			}
			if tt.n > 0 {
				s.feed([]byte(answertest.Counting("7", strconv.Itoa(tt.n))), 100)
			}
			s.feed([]byte(answertest.DoneEvent), 101)
			s.close(102)
			s.settle("")
			require.Equal(t, Completed, o.State, o.Err)
			require.Equal(t, tt.tokens, o.Tokens)
		})
	}
}

// What gateways and other servers send beside the protocol is passed over and said; what looks like it is a fault.
func TestLeniency(t *testing.T) {
	token, last := answertest.TokenEvent, answertest.LastEvent
	rest := answertest.UsageEvent + answertest.DoneEvent
	for name, tt := range map[string]struct {
		body string
		want Leniency
	}{
		"ping":            {"event: ping\ndata: {\"type\": \"ping\"}\n\n" + token + last + rest, NamedEvent},
		"an empty object": {token + "data: {}\n\n" + last + rest, EmptyObject},
		"no choices":      {token + last + `data: {"id":"x","object":"chunk","created":1,"model":"m"}` + "\n\n" + rest, NoChoices},
		"floats":          {token + last + answertest.Counting("7.0", "2e0") + answertest.DoneEvent, FloatUsage},
		"eos":             {token + answertest.Finishing(`"eos"`) + rest, OtherFinish},
		"end_turn, ping":  {token + "event: x\ndata: {}\n\n" + answertest.Finishing(`"end_turn"`) + rest, OtherFinish | NamedEvent},
		"none":            {"event: message\n" + token + last + rest, 0},
	} {
		o := readAll(tt.body, 5)
		require.Equal(t, Completed, o.State, "%s: %s", name, o.Err)
		require.Equal(t, tt.want, o.Lenient, name)
		require.Len(t, o.Tokens, 2, name)
		said := 0
		for range o.Lenient.All() {
			said++
		}
		require.Equal(t, bits.OnesCount8(uint8(tt.want)), said, name)
	}
	for name, odd := range map[string]string{
		"a heartbeat without a name":  `data: {"type": "heartbeat"}`,
		"a named error":               "event: ping\ndata: {\"error\":{\"message\":\"boom\"}}",
		"an error of that name":       "event: error\ndata: {}",
		"a name of an event before":   "event: ping\n\ndata: {\"type\": \"ping\"}",
		"a name, and text for people": "event: ping\ndata: too late",
		"a half envelope":             `data: {"object":"chunk","model":"m"}`,
		"half a token":                `data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":1.5}}`,
	} {
		body := token + odd + "\n\n" + last + rest
		if name == "half a token" {
			body = token + last + odd + "\n\n" + answertest.DoneEvent
		}
		require.Equal(t, Failed, readAll(body, 7).State, name)
	}
}

func TestStreamThatFails(t *testing.T) {
	const usageOnly = `"usage":{"prompt_tokens":7,"total_tokens":9,"completion_tokens":2}`
	rest := answertest.LastEvent + answertest.UsageEvent + answertest.DoneEvent
	for name, tt := range map[string]struct{ body, err string }{
		"only an error":                   {answertest.ErrorEvent + answertest.DoneEvent, "engine is dead"},
		"an error after tokens":           {answertest.TokenEvent + answertest.ErrorEvent + answertest.DoneEvent, "engine is dead (after 1 token events)"},
		"an error, then the rest":         {answertest.TokenEvent + answertest.ErrorEvent + rest, "engine is dead"},
		"an error with usage":             {answertest.TokenEvent + `data: {"error":{"message":"engine is dead"},` + usageOnly + "}\n\n" + rest, "engine is dead"},
		"an error with choices":           {answertest.TokenEvent + `data: {"error":{"message":"engine is dead"},"choices":[{"text":"a"}]}` + "\n\n" + rest, "engine is dead"},
		"an error behind choices":         {`data: {"choices":[{"text":"a"}],` + usageOnly + `,"error":{"code":500}}` + "\n\n" + rest, `{"code":500}`},
		"an error inside a choice":        {`data: {"choices":[{"text":"","error":{"code":500}}]}` + "\n\n" + rest, "the server reports an error"},
		"an error as text":                {answertest.TokenEvent + `data: {"error":"boom"}` + "\n\n" + rest, "boom"},
		"an error as a number":            {answertest.TokenEvent + `data: {"error":500}` + "\n\n" + rest, "500"},
		"an escaped key":                  {answertest.TokenEvent + `data: {"\u0065rror":"boom"}` + "\n\n" + rest, "boom"},
		"the older error shape":           {`data: {"object":"error","message":"too long"}` + "\n\n" + rest, "too long"},
		"the older shape with choices":    {`data: {"object":"error","message":"too long","choices":[{"text":"a"}]}` + "\n\n" + rest, "too long"},
		"a bare message":                  {answertest.TokenEvent + `data: {"message":"overloaded"}` + "\n\n" + rest, "overloaded"},
		"an error event":                  {answertest.TokenEvent + "event: error\n" + answertest.TokenEvent + rest, "the server reports an error"},
		"an error event with text":        {answertest.TokenEvent + "event: error\ndata: boom\n\n" + rest, "boom"},
		"an error event with a comment":   {answertest.TokenEvent + "event: error\n: \"boom\"\n\n" + rest, "boom"},
		"an error event without any":      {answertest.TokenEvent + "event: error\n\n" + rest, "the server reports an error"},
		"plain text":                      {answertest.TokenEvent + "data: Internal Server Error\n\n" + rest, `not a JSON object: "Internal Server Error"`},
		"plain text, never ended":         {answertest.TokenEvent + rest + "data: Internal Server Error", "an event after [DONE]"},
		"a number":                        {answertest.TokenEvent + "data: 500\n\n" + rest, "not a JSON object"},
		"half an object":                  {answertest.TokenEvent + `data: {"choices":[{"text":"a"` + "\n\n" + rest, "not a JSON object"},
		"two objects in one event":        {"data: {\"choices\":[{\"text\":\"a\"}]}\ndata: {\"choices\":[]}\n\n" + rest, "not a JSON object"},
		"text behind the object":          {`data: {"choices":[{"text":"a"}]} boom` + "\n\n" + rest, "not a JSON object"},
		"another object":                  {answertest.TokenEvent + `data: {"detail":"Not Found"}` + "\n\n" + rest, `not part of a streamed answer: "{\"detail\"`},
		"choices of text":                 {`data: {"choices":["a"]}` + "\n\n" + rest, "choices is not a list of objects"},
		"choices as text":                 {`data: {"choices":"a"}` + "\n\n" + rest, "choices is not a list of objects"},
		"abort":                           {answertest.TokenEvent + answertest.Finishing(`"abort"`) + answertest.UsageEvent + answertest.DoneEvent, `finish_reason "abort" (after 2 token events)`},
		"error":                           {answertest.TokenEvent + answertest.Finishing(`"error"`) + answertest.UsageEvent + answertest.DoneEvent, `finish_reason "error"`},
		"content filter":                  {answertest.TokenEvent + answertest.Finishing(`"content_filter"`) + answertest.UsageEvent + answertest.DoneEvent, `finish_reason "content_filter"`},
		"an unknown reason":               {answertest.TokenEvent + answertest.Finishing(`"error: lost"`) + answertest.UsageEvent + answertest.DoneEvent, `finish_reason "error: lost"`},
		"a reason that is no text":        {answertest.TokenEvent + answertest.Finishing(`{"type":"abort"}`) + answertest.UsageEvent + answertest.DoneEvent, `finish_reason {"type":"abort"}`},
		"abort, then length":              {answertest.Finishing(`"abort"`) + rest, `finish_reason "abort"`},
		"no done, no usage":               {answertest.TokenEvent + answertest.LastEvent, "without [DONE]"},
		"no done, no reason":              {answertest.TokenEvent + answertest.UsageEvent, "without [DONE]"},
		"no reason, no usage":             {answertest.TokenEvent + answertest.DoneEvent, "without a finish_reason"},
		"no reason, too few":              {answertest.TokenEvent + answertest.Counting("7", "1") + answertest.DoneEvent, "without a finish_reason, at 1 of 2 tokens"},
		"an event after done":             {rest + answertest.TokenEvent, "an event after [DONE]"},
		"no completion tokens":            {roleEvent + answertest.Counting("7", "0") + answertest.DoneEvent, "the server counts 0 completion tokens"},
		"0 completion tokens":             {answertest.TokenEvent + answertest.LastEvent + answertest.Counting("7", "0") + answertest.DoneEvent, "the server counts 0 completion tokens"},
		"negative completion tokens":      {answertest.TokenEvent + answertest.LastEvent + answertest.Counting("7", "-1") + answertest.DoneEvent, "no token count"},
		"negative prompt tokens":          {answertest.TokenEvent + answertest.LastEvent + answertest.Counting("-7", "2") + answertest.DoneEvent, "no token count"},
		"no prompt tokens":                {answertest.TokenEvent + answertest.LastEvent + answertest.Counting("0", "2") + answertest.DoneEvent, "the server counts 0 prompt tokens"},
		"more than asked for":             {answertest.TokenEvent + answertest.LastEvent + answertest.Counting("7", "1000") + answertest.DoneEvent, "1000 completion tokens, but 2 were asked for"},
		"far more than any":               {answertest.TokenEvent + answertest.LastEvent + answertest.Counting("7", "1e400") + answertest.DoneEvent, "no token count"},
		"a prompt longer than any":        {answertest.TokenEvent + answertest.LastEvent + answertest.Counting("9223372036854775807", "2") + answertest.DoneEvent, "no token count"},
		"tokens as text":                  {answertest.TokenEvent + answertest.LastEvent + answertest.Counting("7", `"2"`) + answertest.DoneEvent, "no token count"},
		"tokens as true":                  {answertest.TokenEvent + answertest.LastEvent + answertest.Counting("7", "true") + answertest.DoneEvent, "no token count"},
		"tokens as NaN":                   {answertest.TokenEvent + answertest.LastEvent + answertest.Counting("7", "NaN") + answertest.DoneEvent, "usage cannot be read"},
		"usage as a list":                 {answertest.TokenEvent + answertest.LastEvent + `data: {"choices":[],"usage":[2]}` + "\n\n" + answertest.DoneEvent, "usage is not an object"},
		"more texts than tokens":          {answertest.TokenEvent + answertest.LastEvent + answertest.Counting("7", "1") + answertest.DoneEvent, "counts 1 completion tokens, but sent text 2 times"},
		"nothing":                         {"", "no token event"},
		"only done":                       {answertest.DoneEvent, "no token event"},
		"only usage":                      {answertest.UsageEvent + answertest.DoneEvent, "no token event"},
		"only a role":                     {roleEvent + answertest.Finishing("null") + answertest.DoneEvent, "without a finish_reason"},
		"a role and no usage":             {`data: {"choices":[{"delta":{"role":"assistant"},"finish_reason":"stop"}]}` + "\n\n" + answertest.DoneEvent, "no token event"},
		"an HTML page":                    {"<html>\nhello\n</html>\n", `not part of a streamed answer: "<html>"`},
		"an HTML page in the middle":      {answertest.TokenEvent + "<html>\n\n" + rest, `not part of a streamed answer: "<html>"`},
		"an answer that is not streamed":  {`{"id":"1","choices":[{"text":"ab","finish_reason":"stop"}],` + usageOnly + `}`, "not part of a streamed answer"},
		"an error that is not streamed":   {`{"error":{"message":"engine is dead"}}`, "engine is dead"},
		"an error behind a whole answer":  {rest + answertest.ErrorEvent, "an event after [DONE]"},
		"a stream of more events":         {strings.Repeat(answertest.TokenEvent, 2*asked+overshoot+1), "more than 68 token events"},
		"an answer nested without an end": {"data: {\"choices\":" + strings.Repeat("[", 300) + "\n\n", "choices is not a list"},
		"a value nested without an end":   {"data: {\"x\":" + strings.Repeat("[", 300) + "\n\n", "nested too deep"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, size := range []int{1 << 20, 1, 3, 64} {
				o := readAll(tt.body, size)
				require.Equal(t, Failed, o.State)
				require.Contains(t, o.Err, tt.err)
				require.Empty(t, o.Tokens)
			}
		})
	}
}

func TestStreamTimesAreThoseOfTheReadThatEndsAnEvent(t *testing.T) {
	body := answertest.TokenEvent + answertest.TokenEvent + answertest.LastEvent + answertest.DoneEvent
	n, last := int64(len(answertest.TokenEvent)), int64(len(answertest.LastEvent))
	require.Equal(t, []int64{n, 2 * n, 2*n + last}, readAll(body, 1).Tokens)
	all := int64(len(body))
	require.Equal(t, []int64{all, all, all}, readAll(body, len(body)).Tokens, "a bundle arrives at once")
}

func TestStreamRefusesEndlessEvents(t *testing.T) {
	for name, piece := range map[string]string{
		"a line":            strings.Repeat("x", 1<<20),
		"lines of an event": "data: " + strings.Repeat("x", 1<<20) + "\n",
	} {
		var o Outcome
		var s stream
		s.reset(&o, Wanted{Tokens: asked})
		for range lineLimit>>20 + 2 {
			s.feed([]byte(piece), 1)
		}
		require.True(t, s.fatal, name)
		s.settle("")
		require.Contains(t, o.Err, "longer than 16 MiB")
	}
}

// FuzzStream checks that where bytes are cut never changes what is read.
func FuzzStream(f *testing.F) {
	for _, body := range []string{
		answertest.TokenEvent + answertest.LastEvent + answertest.UsageEvent + answertest.DoneEvent,
		strings.ReplaceAll(roleEvent+deltaEvent+answertest.LastEvent+answertest.UsageEvent, "\n", "\r\n"),
		answertest.TokenEvent + answertest.Finishing(`"abort"`) + answertest.Counting("-1", "1e400") +
			answertest.DoneEvent,
		"event: error\n: why\n\n<html>\ndata: {\"error\":\"x\",\"choices\":null}\n\n",
		": ping\n\n" + answertest.TokenEvent + answertest.ErrorEvent,
		"data: a\ndata: b\n\ndata:\n\n\n\r\n\rdata: {\"choices\":[1",
	} {
		f.Add(body, uint64(1))
	}
	f.Fuzz(func(t *testing.T, body string, seed uint64) {
		whole := readAll(body, len(body)+1)
		rng := rand.New(rand.NewPCG(seed, 0))
		var o Outcome
		var s stream
		s.reset(&o, Wanted{Tokens: asked, Text: true})
		for rest := []byte(body); len(rest) > 0; {
			n := 1 + rng.IntN(min(len(rest), 40))
			piece := append([]byte(nil), rest[:n]...)
			s.feed(piece, 1)
			clear(piece) // nothing may be kept of it
			rest = rest[n:]
		}
		s.close(1)
		s.settle("")
		require.Equal(t, whole.State, o.State)
		require.Equal(t, whole.Err, o.Err)
		require.Equal(t, whole.Text, o.Text)
		require.Equal(t, len(whole.Tokens), len(o.Tokens))
		require.Equal(t, [2]int{whole.Input, whole.Output}, [2]int{o.Input, o.Output})
	})
}

// readAnswer feeds a whole HTTP answer in pieces of that size, then the end of the connection.
func readAnswer(raw string, size int) (o Outcome, over, keepAlive bool) {
	var a Reader
	a.Reset(&o, Wanted{Tokens: asked, Text: true})
	for i := 0; i < len(raw); i += size {
		end := min(i+size, len(raw))
		done, err := a.Feed([]byte(raw[i:end]), int64(end))
		if err != nil && a.part != partOver {
			a.Close(int64(end), err)
			return o, false, false
		}
		over = over || done
	}
	a.Close(int64(len(raw)), a.EOF())
	return o, over, a.KeepAlive
}

func TestAnswer(t *testing.T) {
	body := answertest.TokenEvent + answertest.LastEvent + answertest.UsageEvent + answertest.DoneEvent
	tests := map[string]struct {
		raw       string
		over      bool // before the connection ended
		keepAlive bool
		err       string // "" is success with 2 tokens
	}{
		"chunked":                   {answertest.Chunked(answertest.TokenEvent, answertest.LastEvent, answertest.UsageEvent, answertest.DoneEvent), true, true, ""},
		"one chunk":                 {answertest.Chunked(body), true, true, ""},
		"chunks cut events":         {answertest.Chunked(body[:30], body[30:170], body[170:]), true, true, ""},
		"chunk extension":           {"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + fmt.Sprintf("%X;a=b\r\n%s\r\n0\r\nX: y\r\n\r\n", len(body), body), true, true, ""},
		"sized":                     {fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body), true, true, ""},
		"interim answer":            {"HTTP/1.1 100 Continue\r\n\r\n" + answertest.Chunked(body), true, true, ""},
		"many interim answers":      {strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n", 50) + answertest.Chunked(body), true, true, ""},
		"lines end in LF":           {fmt.Sprintf("HTTP/1.1 200 OK\nContent-Length: %d\n\n%s", len(body), body), true, true, ""},
		"one of two options":        {strings.Replace(answertest.Chunked(body), "\r\n\r\n", "\r\nConnection: TE, Close\r\n\r\n", 1), true, false, ""},
		"a length and chunks":       {strings.Replace(answertest.Chunked(body), "\r\n\r\n", "\r\nContent-Length: 5\r\n\r\n", 1), true, false, ""},
		"a trailer":                 {strings.TrimSuffix(answertest.Chunked(body), "\r\n") + "X: y\r\nZ: 1\r\n\r\n", true, true, ""},
		"connection: close":         {strings.Replace(answertest.Chunked(body), "\r\n\r\n", "\r\nConnection: close\r\n\r\n", 1), true, false, ""},
		"HTTP/1.0 to the end":       {"HTTP/1.0 200 OK\r\n\r\n" + body, false, false, ""},
		"to the end without [DONE]": {"HTTP/1.0 200 OK\r\n\r\n" + answertest.TokenEvent, false, false, "closed the connection in the middle"},
		"cut in a chunk":            {answertest.Chunked(answertest.TokenEvent, answertest.TokenEvent)[:200], false, false, "closed the connection in the middle"},
		"cut before the last chunk": {strings.TrimSuffix(answertest.Chunked(answertest.TokenEvent), "0\r\n\r\n"), false, false, "closed the connection in the middle of its answer (after 1 token events)"},
		"nothing":                   {"", false, false, "without an answer"},
		"an error":                  {"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 37\r\n\r\n" + `{"error":{"message":"EngineCore: x"}}`, true, true, "500 Internal Server Error: EngineCore: x"},
		"an error in text":          {"HTTP/1.1 503 Busy\r\nContent-Length: 5\r\n\r\nsorry", true, true, "503 Busy: sorry"},
		"an empty error":            {"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", true, true, "404 Not Found"},
		"no HTTP":                   {"SSH-2.0-OpenSSH\r\n\r\n", false, false, "malformed HTTP answer"},
		"negative length":           {"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", false, false, "content length"},
		"chunk size in words":       {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nten\r\n", false, false, "chunk size"},
		"huge chunk size":           {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n", false, false, "chunk size"},
		"words behind a chunk size": {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5 five\r\n", false, false, "chunk size"},
		"no chunk size":             {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n;a=b\r\n", false, false, "chunk size"},
		"a sign before the length":  {"HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\n", false, false, "content length"},
		"two lengths":               {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n", false, false, "content length"},
		"another encoding":          {"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", false, false, "transfer encoding"},
		"encoded twice":             {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", false, false, "transfer encoding"},
		"a header without a colon":  {"HTTP/1.1 200 OK\r\nhello\r\n\r\n", false, false, "header"},
		"a space in a header":       {"HTTP/1.1 200 OK\r\nContent-Length : 5\r\n\r\n", false, false, "header"},
		"a folded header":           {"HTTP/1.1 200 OK\r\nX: a\r\n b: c\r\n\r\n", false, false, "header"},
		"another protocol":          {"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n", true, false, "101 Switching Protocols"},
		"HTTP/2":                    {"HTTP/2 200\r\n\r\n", false, false, "first line"},
		"a length too small":        {fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body)-20, body), true, true, "an event cannot be read"},
		"a length too large":        {fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body)+20, body), false, false, "in the middle of its answer"},
		"an error cut off":          {"HTTP/1.1 500 Oh\r\nContent-Length: 37\r\n\r\nout of mem", false, false, "500 Oh: out of mem"},
		"an error event, then cut":  {strings.TrimSuffix(answertest.Chunked(answertest.TokenEvent, answertest.ErrorEvent), "0\r\n\r\n"), false, false, "engine is dead"},
		"chunk too long":            {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n", false, false, "longer than its size"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			for _, size := range []int{1 << 20, 1, 2, 7} {
				o, over, keepAlive := readAnswer(tt.raw, size)
				if tt.err != "" {
					require.Equal(t, Failed, o.State)
					require.Contains(t, o.Err, tt.err)
				} else {
					require.Equal(t, Completed, o.State, o.Err)
					require.Len(t, o.Tokens, 2)
				}
				require.Equal(t, tt.over, over)
				require.Equal(t, tt.keepAlive, keepAlive && over)
			}
		})
	}
}

func TestAnswerIsLimited(t *testing.T) {
	long := strings.Repeat("x", 2*HeadLimit)
	for name, raw := range map[string]string{
		"a header":        "HTTP/1.1 200 OK\r\nX: " + long,
		"a first line":    "HTTP/1.1 200 " + long,
		"many headers":    "HTTP/1.1 200 OK\r\n" + strings.Repeat("X: y\r\n", HeadLimit/4),
		"interim answers": strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", HeadLimit/20),
		"a chunk's line":  "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;" + long,
		"a trailer":       "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n" + strings.Repeat("X: y\r\n", HeadLimit/4),
	} {
		for _, size := range []int{1, 4096, 1 << 20} {
			o, _, _ := readAnswer(raw, size)
			require.Contains(t, o.Err, "longer than 64 KiB", name)
		}
	}
}

func TestAnswerLimitsItsBody(t *testing.T) {
	for _, status := range []string{"200 OK", "500 Oh"} {
		var o Outcome
		var a Reader
		a.Reset(&o, Wanted{Tokens: asked})
		_, err := a.Feed([]byte("HTTP/1.1 "+status+"\r\n\r\n"), 1)
		piece := []byte(":" + strings.Repeat(" ", 8<<20) + "\n")
		for range bodyLimit/len(piece) + 1 {
			require.NoError(t, err)
			_, err = a.Feed(piece, 1)
		}
		require.ErrorContains(t, err, "longer than 1024 MiB")
	}
}

func TestChunkOfAStreamIsJSON(t *testing.T) {
	for payload, ok := range map[string]bool{
		`{}`: true, ` { } `: true, `{"a":1}`: true, `{"a":-0.5e+7,"b":[true,false,null,"\u00e9\n",{}]}`: true,
		`{"a":[NaN,-Infinity]}`: true,
		``:                      false, `[]`: false, `{`: false, `{"a"}`: false, `{"a":}`: false, `{"a":1,}`: false,
		`{,}`:      false,
		`{"a":01}`: false, `{"a":1.}`: false,
		`{"a":1e}`: false, `{"a":+1}`: false, `{"a":nan}`: false, `{"a":"\x"}`: false, `{"a":"\u00g0"}`: false,
		"{\"a\":\"\n\"}": false, `{"a":"b}`: false,
		`{"a":1]`: false, `{"a":[1}`: false, `{"a":1}{`: false, `{"a":[1 2]}`: false, `{'a':1}`: false, `{a:1}`: false,
		`{"a":tru}`: false,
	} {
		_, err := readChunk([]byte(payload))
		require.Equal(t, ok, err == nil, "%s: %v", payload, err)
	}
}

// A value that is none is an error under each key, wherever the payload ends.
func TestChunkOfBrokenValues(t *testing.T) {
	for _, around := range []string{`{"choices":%}`, `{"usage":%}`, `{"error":%}`, `{"object":%}`, `{"x":%}`,
		`{"choices":[%]}`, `{"choices":[{"text":%}]}`,
		`{"choices":[{"delta":%}]}`, `{"choices":[{"delta":{"content":%}}]}`, `{"choices":[{"role":%}]}`,
		`{"choices":[{"finish_reason":%}]}`, `{"choices":[{"error":%}]}`} {
		for _, value := range []string{":", "::", ",", "]", "}", ":null", "{", "[", `"`, `{"a"`, "-", "nul", "\x00"} {
			payload := strings.ReplaceAll(around, "%", value)
			for end := range len(payload) + 1 {
				_, err := readChunk([]byte(payload[:end]))
				require.Error(t, err, "%s", payload[:end])
			}
		}
	}
}

// The load client and the proxy call the same answers errors.
func TestAnswersThatAreErrors(t *testing.T) {
	table, err := os.ReadFile("testdata/errors.txt")
	require.NoError(t, err)
	for line := range strings.Lines(string(table)) {
		want, answer, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		c, err := readChunk([]byte(answer))
		require.NoError(t, err, line)
		require.Equal(t, want == "error", c.failed, line)
	}
}

// FuzzChunk checks against encoding/json what is JSON, and what it says.
func FuzzChunk(f *testing.F) {
	for _, event := range []string{answertest.TokenEvent, roleEvent, deltaEvent, answertest.UsageEvent,
		answertest.ErrorEvent, answertest.LastEvent} {
		f.Add(strings.TrimPrefix(strings.TrimSpace(event), "data: "))
	}
	f.Add(`{"choices":[{"delta":{"content":"\u0041"},"finish_reason":"stop"},{"text":"b"}],"usage":{},"error":{"message":""},"x":[1e9,-0.1]}`)
	f.Fuzz(func(t *testing.T, payload string) {
		c, err := readChunk([]byte(payload))
		var is map[string]json.RawMessage
		plain := json.Unmarshal([]byte(payload), &is) == nil && is != nil
		switch {
		case err == nil:
			require.True(t, plain || strings.Contains(payload, "NaN") || strings.Contains(payload, "Infinity"))
		case err == errNoJSON:
			require.False(t, plain)
		}
		if err != nil || !plain || strings.Count(payload, "choices")+strings.Count(payload, `\`) > 1 {
			return
		}
		var choices []map[string]json.RawMessage
		if json.Unmarshal(is["choices"], &choices) == nil {
			require.Len(t, choices, c.choices)
		}
	})
}

// FuzzAnswer checks against net/http where both accept an answer, and that cuts change nothing.
func FuzzAnswer(f *testing.F) {
	f.Add(answertest.Chunked(answertest.TokenEvent, answertest.LastEvent, answertest.UsageEvent, answertest.DoneEvent),
		3)
	f.Add("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.0 200 OK\nConnection: a, close\nContent-Length: 4\n\n: x\n", 5)
	f.Add("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2 ;x\r\n\r\n\r\n0\r\nX: y\r\n\r\nHTTP/1.1 200 OK\r\n",
		1)
	f.Add("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", 1)
	f.Add("HTTP/1.1 500 Oh\r\n\r\nwhy", 2)
	f.Add("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n", 9)
	f.Fuzz(func(t *testing.T, raw string, size int) {
		size = max(size%64, 1)
		whole, over, keep := readAnswer(raw, len(raw)+1)
		cut, cutOver, cutKeep := readAnswer(raw, size)
		require.Equal(t, whole.State, cut.State)
		require.Equal(t, whole.Err, cut.Err)
		require.Equal(t, whole.Text, cut.Text)
		require.Equal(t, over, cutOver)
		require.Equal(t, keep, cutKeep)
		if over && !strings.HasPrefix(raw, "HTTP/1.1 1") {
			resp, body := netHTTP(raw)
			if resp != nil && resp.StatusCode == http.StatusOK {
				require.Equal(t, readAll(body, len(body)+1).Text, whole.Text)
			}
		}
	})
}

// netHTTP reads an answer with the standard library; resp is nil if it refuses it.
func netHTTP(raw string) (resp *http.Response, body string) {
	resp, err := http.ReadResponse(bufio.NewReader(strings.NewReader(raw)), nil)
	if err != nil {
		return nil, ""
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, ""
	}
	return resp, string(b)
}

// BenchmarkEvent compares the reading of one event's JSON with encoding/json, into a struct of
// the same keys.
func BenchmarkEvent(b *testing.B) {
	payload := []byte(strings.TrimSuffix(strings.TrimPrefix(answertest.TokenEvent, "data: "), "\n\n"))
	var ours, theirs time.Duration
	for b.Loop() {
		began := time.Now()
		for range 1000 {
			if c, err := readChunk(payload); err != nil || c.texts != 1 {
				b.Fatal(err)
			}
		}
		between := time.Now()
		for range 1000 {
			var c struct {
				Choices []struct {
					Text   json.RawMessage
					Finish json.RawMessage `json:"finish_reason"`
					Delta  struct{ Content, Role json.RawMessage }
				}
				Usage, Error json.RawMessage
				Object       string
			}
			if err := json.Unmarshal(payload, &c); err != nil || len(c.Choices) != 1 {
				b.Fatal(err)
			}
		}
		ours, theirs = ours+between.Sub(began), theirs+time.Since(between)
	}
	b.ReportMetric(float64(ours.Nanoseconds())/float64(b.N)/1000, "ns/event")
	b.ReportMetric(float64(theirs)/float64(ours), "x-encoding/json")
}

// A body whose head was read elsewhere is read as one of a connection. [DONE] and what was said
// can be asked for, since a stream may be whole without either.
func TestBodyAlone(t *testing.T) {
	for name, tt := range map[string]struct {
		body        string
		done, spoke bool
	}{
		"whole":     {answertest.TokenEvent + answertest.LastEvent + answertest.UsageEvent + answertest.DoneEvent, true, true},
		"no done":   {answertest.TokenEvent + answertest.LastEvent + answertest.UsageEvent, false, true},
		"only role": {roleEvent + `data: {"choices":[{"delta":{},"finish_reason":"stop"}]}` + "\n\n" + answertest.DoneEvent, true, false},
		"reasoning": {`data: {"choices":[{"delta":{"reasoning":"hm"},"finish_reason":"stop"}]}` + "\n\n" + answertest.DoneEvent, true, true},
		"none yet":  {`data: {"choices":[{"delta":{"reasoning_content":""},"finish_reason":"stop"}]}` + "\n\n" + answertest.DoneEvent, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			var o Outcome
			var r Reader
			r.ResetBody(&o, Wanted{Tokens: asked, Text: true})
			over, err := r.Feed([]byte(tt.body), 0)
			require.NoError(t, err)
			require.False(t, over, "only the caller knows where the body ends")
			r.Close(0, nil)
			require.Equal(t, tt.spoke, o.State == Completed, o.Err)
			require.Equal(t, tt.done, r.Done())
			require.Equal(t, tt.spoke, r.Spoke())
		})
	}
}

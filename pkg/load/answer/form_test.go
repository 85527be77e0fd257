package answer

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/load/answer/answertest"
)

// readForm reads the body of a 200 of that form in pieces of that size; the time is the number of
// bytes fed.
func readForm(form Form, body string, size int) Outcome {
	var o Outcome
	var r Reader
	r.ResetBody(&o, Wanted{Form: form, Tokens: asked, Text: true})
	for i := 0; i < len(body); i += size {
		end := min(i+size, len(body))
		if _, err := r.Feed([]byte(body[i:end]), int64(end)); err != nil {
			r.Close(int64(end), err)
			return o
		}
	}
	r.Close(int64(len(body)), nil)
	return o
}

func TestResponseThatIsWhole(t *testing.T) {
	const created, delta, reasoning = answertest.CreatedEvent, answertest.DeltaEvent, answertest.ReasoningEvent
	for name, tt := range map[string]struct {
		body                  string
		events, input, output int
		text                  string
	}{
		"as vLLM sends it":      {created + delta + delta + answertest.TextDoneEvent + answertest.CompletedEvent, 2, 7, 2, "aa"},
		"reasoning, then text":  {created + reasoning + delta + answertest.CompletedEvent, 2, 7, 2, "a"},
		"it stopped":            {delta + answertest.Completed("completed", "null", answertest.Usage), 1, 7, 2, "a"},
		"response.incomplete":   {delta + strings.ReplaceAll(answertest.CompletedEvent, "response.completed", "response.incomplete"), 1, 7, 2, "a"},
		"no usage":              {delta + delta + answertest.Completed("completed", "null", "null"), 2, 0, 2, "aa"},
		"[DONE] behind it":      {delta + answertest.CompletedEvent + answertest.DoneEvent, 1, 7, 2, "a"},
		"no event lines":        {`data: {"type":"response.output_text.delta","delta":"b"}` + "\n\n" + answertest.CompletedEvent, 1, 7, 2, "b"},
		"the type comes first":  {`data: {"type":"response.output_text.delta","sequence_number":1,"delta":"\u00e9"}` + "\n\n" + answertest.CompletedEvent, 1, 7, 2, "é"},
		"an empty delta":        {`data: {"type":"response.output_text.delta","delta":""}` + "\n\n" + answertest.CompletedEvent, 1, 7, 2, ""},
		"an unknown event":      {`data: {"type":"response.audio.delta","delta":"x"}` + "\n\n" + delta + answertest.CompletedEvent, 1, 7, 2, "a"},
		"a keep-alive comment":  {": ping\n\n" + delta + answertest.CompletedEvent, 1, 7, 2, "a"},
		"a line separator":      {strings.Replace(delta, `"a"`, "\"\u2028\"", 1) + answertest.CompletedEvent, 1, 7, 2, "\u2028"},
		"no blank line at last": {delta + strings.TrimSpace(answertest.CompletedEvent), 1, 7, 2, "a"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, size := range []int{1 << 20, 1, 7} {
				o := readForm(Responses, tt.body, size)
				require.Equal(t, Completed, o.State, "%s", o.Err)
				require.Len(t, o.Tokens, tt.events)
				require.Equal(t, [2]int{tt.input, tt.output}, [2]int{o.Input, o.Output})
				require.Equal(t, tt.text, o.Text)
				require.Equal(t, 200, o.Status)
				require.EqualValues(t, len(tt.body), o.End)
			}
		})
	}
}

func TestResponseThatFails(t *testing.T) {
	const created, delta = answertest.CreatedEvent, answertest.DeltaEvent
	for name, tt := range map[string]struct{ body, err string }{
		"it breaks off":         {created + delta, "the stream ended without response.completed (after 1 token events)"},
		"[DONE] too early":      {created + delta + answertest.DoneEvent + answertest.CompletedEvent, "an event after response.completed"},
		"no token":              {created + answertest.CompletedEvent, "no token event"},
		"nothing":               {"", "no token event"},
		"it failed":             {created + delta + answertest.FailedEvent, "engine is dead (after 1 token events)"},
		"an error":              {delta + `data: {"type":"error","code":"x","message":"engine is dead"}` + "\n\n", "engine is dead"},
		"an error event":        {delta + "event: error\ndata: boom\n\n" + answertest.CompletedEvent, "boom"},
		"vLLM's error":          {delta + answertest.ErrorEvent, "engine is dead"},
		"content filter":        {delta + answertest.Completed("incomplete", `{"reason":"content_filter"}`, answertest.Usage), `incomplete: "content_filter"`},
		"it was cancelled":      {delta + answertest.Completed("cancelled", "null", answertest.Usage), `status "cancelled"`},
		"more than asked for":   {delta + answertest.Completed("completed", "null", `{"input_tokens":7,"output_tokens":1000}`), "1000 completion tokens, but 2 were asked for"},
		"more texts than that":  {delta + delta + answertest.Completed("completed", "null", `{"input_tokens":7,"output_tokens":1}`), "counts 1 completion tokens, but sent text 2 times"},
		"0 tokens":              {delta + answertest.Completed("completed", "null", `{"input_tokens":7,"output_tokens":0}`), "counts 0 completion tokens"},
		"usage of no number":    {delta + answertest.Completed("completed", "null", `{"input_tokens":7,"output_tokens":"2"}`), "no token count"},
		"usage of no object":    {delta + answertest.Completed("completed", "null", `[7]`), "usage is not an object"},
		"a response of text":    {`data: {"type":"response.completed","response":"x"}` + "\n\n", "response is not an object"},
		"an event without type": {delta + `data: {"delta":"a"}` + "\n\n" + answertest.CompletedEvent, "not part of a streamed answer"},
		"events of chat":        {answertest.TokenEvent + answertest.LastEvent, "not part of a streamed answer"},
		"not streamed":          {`{"id":"resp_1","object":"response","status":"completed"}`, "not part of a streamed answer"},
		"half an event":         {delta + `data: {"type":"response.comp` + "\n\n", "not a JSON object"},
		"more events than can":  {strings.Repeat(delta, 2*asked+overshoot+1), "more than 68 token events"},
		"an event behind it":    {delta + answertest.CompletedEvent + delta, "an event after response.completed"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, size := range []int{1 << 20, 1, 7} {
				o := readForm(Responses, tt.body, size)
				require.Equal(t, Failed, o.State)
				require.Contains(t, o.Err, tt.err)
				require.Empty(t, o.Tokens)
			}
		})
	}
}

func TestDocument(t *testing.T) {
	const usage = `"usage":{"prompt_tokens":7,"total_tokens":7}`
	for name, tt := range map[string]struct {
		body, err string
		input     int
	}{
		"embeddings":               {body: answertest.Embeddings, input: 7},
		"ranks":                    {body: answertest.Ranks, input: 13},
		"spaces":                   {body: " {\n \"data\" : [ 1 ] ,\t" + usage + " }\r\n", input: 7},
		"usage first":              {body: `{` + usage + `,"data":["AAAA"]}`, input: 7},
		"no usage":                 {body: `{"data":[{}]}`},
		"usage is null":            {body: `{"data":[{}],"usage":null}`},
		"usage without prompt":     {body: `{"data":[{}],"usage":{"total_tokens":3}}`},
		"usage twice":              {body: `{"usage":{"prompt_tokens":1},"data":[{}],` + usage + `}`, input: 7},
		"an escaped key":           {body: `{"data":[1],"\u0075sage":{"prompt_tokens":7}}`, input: 7},
		"keys within":              {body: `{"data":[{"usage":1,"error":"x","a":"}]\"{"}],` + usage + `,"":[],"x":{"data":[]}}`, input: 7},
		"error is null":            {body: `{"error":null,"data":[1],` + usage + `}`, input: 7},
		"nothing":                  {body: "", err: "ended within its JSON object"},
		"half":                     {body: answertest.Embeddings[:80], err: "ended within its JSON object"},
		"an empty object":          {body: `{}`, err: "holds no result"},
		"no results":               {body: `{"data":[],` + usage + `}`, err: "holds no result"},
		"results that are no list": {body: `{"data":{"a":1},` + usage + `}`, err: "holds no result"},
		"an error":                 {body: `{"error":{"message":"engine is dead","code":500}}`, err: "engine is dead"},
		"an older error":           {body: `{"object":"error","message":"too long","code":400}`, err: "too long"},
		"a bare message":           {body: `{"message":"overloaded"}`, err: "overloaded"},
		"an error with results":    {body: `{"data":[1],"error":"boom"}`, err: "boom"},
		"text":                     {body: "<html>", err: "not a JSON object"},
		"a list":                   {body: "[1]", err: "not a JSON object"},
		"a stream":                 {body: answertest.TokenEvent, err: "not a JSON object"},
		"text behind it":           {body: answertest.Ranks + "x", err: "not a JSON object"},
		"two documents":            {body: answertest.Ranks + answertest.Ranks, err: "not a JSON object"},
		"brackets that cross":      {body: `{"data":[1}]`, err: "not a JSON object"},
		"a key without a value":    {body: `{"data"}`, err: "not a JSON object"},
		"a comma at the end":       {body: `{"data":[1],}`, err: "not a JSON object"},
		"a key that is none":       {body: `{data:[1]}`, err: "not a JSON object"},
		"a broken usage":           {body: `{"data":[1],"usage":{"prompt_tokens":}}`, err: "not a JSON object"},
		"usage of no object":       {body: `{"data":[1],"usage":7}`, err: "usage is not an object"},
		"usage of no number":       {body: `{"data":[1],"usage":{"prompt_tokens":"7"}}`, err: "no token count"},
		"0 prompt tokens":          {body: `{"data":[1],"usage":{"prompt_tokens":0}}`, err: "counts 0 prompt tokens"},
		"a usage without an end":   {body: `{"usage":{"x":"` + strings.Repeat("x", memberLimit), err: "longer than 64 KiB"},
		"a key without an end":     {body: `{"` + strings.Repeat("x", memberLimit), err: "longer than 64 KiB"},
		"nested without an end":    {body: `{"data":` + strings.Repeat("[", 300), err: "nested too deep"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, size := range []int{1 << 20, 1, 7} {
				o := readForm(Document, tt.body, size)
				if tt.err != "" {
					require.Equal(t, Failed, o.State)
					require.Contains(t, o.Err, tt.err)
					require.Empty(t, o.Tokens)
					continue
				}
				require.Equal(t, Completed, o.State, o.Err)
				require.Equal(t, []int64{int64(len(tt.body))}, o.Tokens, "the end is the only event")
				require.Equal(t, tt.input, o.Input)
				require.Zero(t, o.Output)
				require.Equal(t, tt.input > 0, o.Usage)
			}
		})
	}
}

// A document that ends with its connection is whole if its object is.
func TestDocumentUpToTheEndOfTheConnection(t *testing.T) {
	for body, whole := range map[string]bool{answertest.Ranks: true, answertest.Ranks[:50]: false} {
		var o Outcome
		var r Reader
		r.Reset(&o, Wanted{Form: Document})
		_, err := r.Feed([]byte("HTTP/1.0 200 OK\r\n\r\n"+body), 1)
		require.NoError(t, err)
		r.Close(2, r.EOF())
		require.Equal(t, whole, o.State == Completed, o.Err)
	}
}

func FuzzResponseEvent(f *testing.F) {
	for _, event := range []string{answertest.CreatedEvent, answertest.DeltaEvent, answertest.CompletedEvent,
		answertest.FailedEvent} {
		_, payload, _ := strings.Cut(strings.TrimSpace(event), "\ndata: ")
		f.Add(payload)
	}
	f.Add(`{"type":1,"response":{"usage":{},"incomplete_details":{"reason":null}},"error":""}`)
	f.Fuzz(func(t *testing.T, payload string) {
		e, err := readResponseEvent([]byte(payload))
		var is map[string]json.RawMessage
		plain := json.Unmarshal([]byte(payload), &is) == nil && is != nil
		switch {
		case err == nil:
			require.True(t, plain || strings.Contains(payload, "NaN") || strings.Contains(payload, "Infinity"))
		case err == errNoJSON:
			require.False(t, plain)
		}
		if err == nil && plain && !strings.Contains(payload, `\`) {
			require.Equal(t, string(is["type"]), string(e.kind))
		}
		one, bytewise := readForm(Responses, "data: "+payload+"\n\n", len(payload)+20), readForm(Responses,
			"data: "+payload+"\n\n", 1)
		require.Equal(t, fmt.Sprint(one.State, one.Err, one.Text),
			fmt.Sprint(bytewise.State, bytewise.Err, bytewise.Text))
	})
}

// FuzzDocument checks that every JSON object is read, that it says what encoding/json finds there,
// and that cuts change nothing.
func FuzzDocument(f *testing.F) {
	for _, body := range []string{answertest.Embeddings, answertest.Ranks, `{}`, `{"error":"x","":[]}`,
		`{"data":[1 2]}`,
		`{"data":["\\"],"usage":{"prompt_tokens":7}}`, ` {"results":[[],{}]}x`} {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body string) {
		one, bytewise := readForm(Document, body, len(body)+1), readForm(Document, body, 1)
		require.Equal(t, fmt.Sprint(one.State, one.Err, one.Input),
			fmt.Sprint(bytewise.State, bytewise.Err, bytewise.Input))
		var is map[string]json.RawMessage
		if json.Unmarshal([]byte(body), &is) != nil || is == nil {
			return
		}
		var d document
		if err := d.read([]byte(body)); err != nil {
			require.True(t, err != errNoJSON, "a JSON object is refused")
			return
		}
		require.True(t, d.over)
		var data []json.RawMessage
		if json.Unmarshal(is["data"], &data) == nil && is["results"] == nil &&
			strings.Count(body, "data")+strings.Count(body, `\`) == 1 {
			require.Len(t, data, d.results)
		}
		if u := is["usage"]; u != nil && string(u) != "null" &&
			strings.Count(body, "usage")+strings.Count(body, `\`) == 1 {
			require.JSONEq(t, string(u), string(d.usage))
		}
	})
}

package answer

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
)

// ErrorBytes is how much of an error's body is read and quoted.
const ErrorBytes = 4 << 10

// StatusText joins a status line and what the error's body says.
func StatusText(status string, body []byte) string {
	if msg := errorMessage(body); msg != "" {
		return status + ": " + msg
	}
	if body = bytes.TrimSpace(body); len(body) > 0 {
		return fmt.Sprintf("%s: %.200s", status, body)
	}
	return status
}

// errorText returns the message of an error that the server reports inside an answer, else what
// it sent.
func errorText(body []byte) string {
	return cmp.Or(errorMessage(body), fmt.Sprintf("the server reports an error: %.200q", body))
}

// errorMessage returns the message of an OpenAI error object, in either of its two shapes, or "".
func errorMessage(body []byte) string {
	var e struct {
		Error   json.RawMessage `json:"error"`
		Object  string          `json:"object"`
		Message string          `json:"message"`
	}
	var mistyped *json.UnmarshalTypeError // of one key; the others are there
	if err := json.Unmarshal(body, &e); err != nil && !errors.As(err, &mistyped) {
		return ""
	}
	if len(e.Error) == 0 || empty(e.Error) {
		return e.Message
	}
	var text string
	var inner struct {
		Message string `json:"message"`
	}
	if json.Unmarshal(e.Error, &text) == nil {
		return text
	}
	if json.Unmarshal(e.Error, &inner); inner.Message != "" {
		return inner.Message
	}
	return string(e.Error)
}

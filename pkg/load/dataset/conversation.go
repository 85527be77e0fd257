package dataset

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/profllm/profllm/pkg/regular"
)

// A Conversation is what its user says, turn by turn. What an assistant once answered is not part
// of it: answers come from the server.
type Conversation struct {
	System  []json.RawMessage // messages before the first turn
	Turns   []json.RawMessage // messages of the user
	Outputs []int             // tokens to ask for in each turn
}

// A said is one message of a recorded conversation, by OpenAI's keys or by those of ShareGPT.
type said struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
	From    string          `json:"from"`
	Value   json.RawMessage `json:"value"`
}

// ReadConversations reads a file of conversations: {"messages": […]} with the keys role and
// content, as OpenAI's API has them, or {"conversations": […]} with from and value, as ShareGPT has
// them. Conversations are lines, or the elements of one JSON list. left counts those that are not
// usable: without a turn of a user, or with messages of others than system, user and assistant.
func ReadConversations(name string) (list []Conversation, left int, err error) {
	raw, err := regular.ReadAtMost(name, regular.Result)
	if err != nil {
		return nil, 0, err
	}
	if list, left, err = parseConversations(raw); err != nil {
		return nil, 0, fmt.Errorf("%s: %w", name, err)
	}
	return list, left, nil
}

// parseConversations reads the text of a file of conversations.
func parseConversations(raw []byte) (list []Conversation, left int, err error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	trimmed := bytes.TrimLeft(raw, " \t\r\n")
	isList := len(trimmed) > 0 && trimmed[0] == '['
	if isList {
		d.Token() // the bracket
	}
	for n := 1; d.More(); n++ {
		var one struct {
			Messages      []said `json:"messages"`
			Conversations []said `json:"conversations"`
		}
		if err := d.Decode(&one); err != nil {
			return nil, 0, fmt.Errorf("conversation %d: %w", n, err)
		}
		if c, ok := conversationOf(append(one.Messages, one.Conversations...)); ok {
			list = append(list, c)
		} else {
			left++
		}
	}
	if _, err := d.Token(); err != nil && (isList || !errors.Is(err, io.EOF)) {
		return nil, 0, fmt.Errorf("behind conversation %d: %w", len(list)+left, err)
	}
	if len(list) == 0 {
		return nil, 0, fmt.Errorf("no conversation has a turn of a user; %d were read", left)
	}
	return list, left, nil
}

// conversationOf returns what the user says in a recorded conversation; false if it is not usable.
func conversationOf(messages []said) (c Conversation, ok bool) {
	for _, m := range messages {
		role, content := m.Role, m.Content
		if role == "" {
			role, content = m.From, m.Value
		}
		if len(content) == 0 || content[0] != '"' && content[0] != '[' {
			return c, false
		}
		switch role {
		case "user", "human":
			c.Turns = append(c.Turns, message("user", content))
		case "assistant", "gpt", "chatgpt", "bing", "bard":
		case "system":
			if len(c.Turns) > 0 {
				return c, false
			}
			c.System = append(c.System, message("system", content))
		default:
			return c, false
		}
	}
	return c, len(c.Turns) > 0
}

// message returns a message of that role. content is JSON.
func message(role string, content json.RawMessage) json.RawMessage {
	out := append([]byte(`{"role":"`+role+`","content":`), content...)
	return append(out, '}')
}

// Said returns a message of that role with a text.
func Said(role, text string) json.RawMessage { return message(role, appendJSON(nil, text)) }

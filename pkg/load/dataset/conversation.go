package dataset

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/profllm/profllm/pkg/pyjson"
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
	role    string
	content pyjson.Value
}

// messagesOf returns the messages of a recorded conversation, from the lists of those names.
func messagesOf(v pyjson.Value, lists ...string) (messages []said, err error) {
	for _, key := range lists {
		list := v.At(key)
		if list.Kind != pyjson.List && list.Kind != pyjson.Absent && list.Kind != pyjson.Null {
			return nil, fmt.Errorf("%q is no list", key)
		}
		for _, item := range list.Items {
			m := said{cmp.Or(item.At("role").Str, item.At("from").Str), item.At("value")}
			if k := m.content.Kind; k == pyjson.Absent || k == pyjson.Null {
				m.content = item.At("content")
			}
			messages = append(messages, m)
		}
	}
	return messages, nil
}

// pictured refuses a conversation about a picture or a video, as the files of LLaVA have them.
func pictured(v pyjson.Value) error {
	if v.At("image").Kind == pyjson.Text || v.At("video").Kind == pyjson.Text {
		return errors.New("the entry has a picture or a video, which this client does not send")
	}
	return nil
}

// ReadConversations reads a file of conversations: {"messages": […]} with the keys role and
// content, as OpenAI's API has them, or {"conversations": […]} with from and value, as ShareGPT has
// them. Conversations are lines, or the elements of one JSON list. left counts those that are not
// usable: without a turn of a user, or with messages of others than system, user and assistant.
func ReadConversations(name string) (list []Conversation, left int, err error) {
	f, err := regular.Open(name)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	return parseConversations(name, regular.Limit(f, regular.Result))
}

// parseConversations reads the text of a file of conversations.
func parseConversations(name string, text io.Reader) (list []Conversation, left int, err error) {
	in := bufio.NewReader(text)
	each := eachDocument
	if startsList(in) {
		each = eachItem
	}
	err = each(name, in, func(v pyjson.Value) error {
		messages, err := messagesOf(v, "messages", "conversations")
		if err == nil {
			err = pictured(v)
		}
		if v.Kind != pyjson.Object {
			err = errors.New("the conversation is no JSON object")
		}
		if c, ok := conversationOf(messages); ok {
			list = append(list, c)
		} else {
			left++
		}
		return err
	})
	if err == nil && len(list) == 0 {
		err = fmt.Errorf("%s: no conversation has a turn of a user; %d were read", name, left)
	}
	if err != nil {
		return nil, 0, err
	}
	return list, left, nil
}

// conversationOf returns what the user says in a recorded conversation; false if it is not usable.
func conversationOf(messages []said) (c Conversation, ok bool) {
	for _, m := range messages {
		if m.content.Kind != pyjson.Text && m.content.Kind != pyjson.List {
			return c, false
		}
		switch m.role {
		case "user", "human":
			c.Turns = append(c.Turns, message("user", appendValue(nil, m.content, false)))
		case "assistant", "gpt", "chatgpt", "bing", "bard":
		case "system":
			if len(c.Turns) > 0 {
				return c, false
			}
			c.System = append(c.System, message("system", appendValue(nil, m.content, false)))
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

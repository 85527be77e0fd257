package campaign

import "github.com/profllm/profllm/pkg/run"

// NotesOnce tells each note once.
func NotesOnce(to Events) Events { return &saidOnce{to, map[string]bool{}} }

// silent is a client that says nothing.
func (c *Client) silent() *Client {
	quiet := *c
	quiet.Events = silence{}
	return &quiet
}

type silence struct{}

// Say implements Events.
func (silence) Say(Level, string) {}

// Submitted implements Events.
func (silence) Submitted(run.Outcome) {}

// saidOnce leaves out notes that were said before: those on the system file come with
// every scenario that is planned on it.
type saidOnce struct {
	Events
	notes map[string]bool
}

// Say implements Events.
func (o *saidOnce) Say(l Level, text string) {
	if l == Note && o.notes[text] {
		return
	}
	o.notes[text] = true
	o.Events.Say(l, text)
}

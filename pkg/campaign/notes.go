package campaign

// NotesOnce tells each note once.
func NotesOnce(to Events) Events { return &saidOnce{to, map[string]bool{}} }

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

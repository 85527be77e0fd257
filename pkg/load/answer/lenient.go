package answer

import "iter"

// A Leniency is what the protocol does not have and servers send all the same. It changes no number, and is accepted
// and said. Several are a sum.
type Leniency byte

const (
	NamedEvent  Leniency = 1 << iota // an event with a name of its own and a JSON object, such as ping
	EmptyObject                      // an event {}
	NoChoices                        // a chunk with id, object and model, and neither choices nor usage
	FloatUsage                       // a count of tokens written as 8.0
	OtherFinish                      // a finish_reason of another API, such as eos
)

var leniencies = []string{
	"events with a name of their own, such as ping, were passed over",
	"events {} were passed over",
	"chunks without choices were passed over",
	"the usage's whole numbers were written as floats, such as 8.0",
	`finish reasons of another API, "eos" or "end_turn", were taken for "stop"`,
}

// All yields each leniency of a sum with what to say of it.
func (l Leniency) All() iter.Seq2[Leniency, string] {
	return func(yield func(Leniency, string) bool) {
		for i, text := range leniencies {
			if one := Leniency(1) << i; l&one != 0 && !yield(one, text) {
				return
			}
		}
	}
}

package arguments

import (
	"encoding/json"
	"testing"
)

// The cost of the catalogue in a command that needs one release of it.
func BenchmarkLoad(b *testing.B) {
	b.Run("catalogue", func(b *testing.B) {
		for b.Loop() {
			var d data
			if err := json.Unmarshal(serve, &d); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("release", func(b *testing.B) {
		for b.Loop() {
			(&Release{Version: "0.32.0", program: Serve}).load()
		}
	})
}

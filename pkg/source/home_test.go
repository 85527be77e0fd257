package source

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOfHome(t *testing.T) {
	for text, want := range map[string]bool{"~": false, "~/x": true, "~ada/x": true, "~ada": false, "~/a:/b": true, "~:/b": false, "~training.model": false,
		"": false, "/~/x": false, "x~": false, "~~": false, "~ x": false, "~1": false} {
		require.Equal(t, want, OfHome(text), text)
	}
}

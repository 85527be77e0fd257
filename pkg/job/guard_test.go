package job

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

// A GPU that was held when the time to release it ran out is held, also if that cut the last
// look short.
func TestStillHeld(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	looks := 0
	held := stillHeld(ctx, func(ctx context.Context) ([]string, error) {
		if looks++; looks == 2 {
			cancel()
			return nil, ctx.Err()
		}
		return []string{"GPU 1"}, nil
	})
	require.Equal(t, []string{"GPU 1"}, held)
	require.Empty(t, stillHeld(t.Context(), func(context.Context) ([]string, error) { return nil, nil }))
}

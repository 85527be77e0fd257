package campaign

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// An interrupted command says so in a word, and never in Go's.
func TestInterruption(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	other := errors.New("other")
	require.Equal(t, context.Canceled, Interruption(ctx, context.Canceled), "nobody interrupted the command")
	cancel()
	require.NoError(t, Interruption(ctx, nil))
	require.Equal(t, other, Interruption(ctx, other))
	require.EqualError(t, Interruption(ctx, context.Canceled), "interrupted")
	require.EqualError(t, Interruption(ctx, fmt.Errorf("ask Slurm: %w", context.Canceled)), "ask Slurm: interrupted")
	err := Interruption(ctx, as(Interrupted, fmt.Errorf("interrupted after 1 of 3 requests: %w", context.Canceled)))
	require.EqualError(t, err, "interrupted after 1 of 3 requests")
	var kind *Error
	require.ErrorAs(t, err, &kind)
	require.Equal(t, Interrupted, kind.Kind)
}

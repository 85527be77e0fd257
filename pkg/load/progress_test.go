package load

import (
	"bufio"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/tail"
)

// Who follows the log finds in its lines how far the load has come.
func TestProgressLines(t *testing.T) {
	read, write := io.Pipe()
	r := runner{o: &Options{}, stderr: write}
	var done atomic.Int64
	done.Store(12)
	stop := r.watch(&done, 64, time.Millisecond)
	line, err := bufio.NewReader(read).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "load: 12/64 done\n", line)
	have, of, ok := tail.Progress([]byte(line))
	require.True(t, ok)
	require.Equal(t, [2]int{12, 64}, [2]int{have, of})
	require.NoError(t, read.Close()) // a reader that is gone stops nothing
	stop()

	r.o.DisableTqdm = true
	r.watch(&done, 64, time.Millisecond)() // would fail on a closed pipe only; must return
}

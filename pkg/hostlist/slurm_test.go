package hostlist_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/hostlist"
	"github.com/profllm/profllm/pkg/internal/slurmtest"
)

// scontrol returns what `scontrol show WHAT LIST` prints, and whether it took
// the list: it exits 0 either way.
func scontrol(t *testing.T, what, list string) (string, bool) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "scontrol", "show", what, list).CombinedOutput()
	require.NoError(t, err, list)
	text := strings.TrimSpace(string(out))
	return text, !strings.Contains(text, "Invalid hostlist")
}

// maker writes random lists; the same seed writes the same ones.
type maker struct{ *rand.Rand }

func (m maker) pick(words ...string) string { return words[m.IntN(len(words))] }

// number is small, at a change of width, or as large as Slurm takes.
func (m maker) number() (uint64, int) {
	bases := []uint64{0, 1, 8, 95, 995, 65530, 1<<32 - 3, 1<<64 - 20}
	n := bases[m.IntN(len(bases))] + m.Uint64N(6)
	return n, m.IntN(5) * m.IntN(2) * (1 + m.IntN(6)) // mostly unpadded, at most 24 wide
}

func (m maker) ranges() string {
	var out []string
	for range 1 + m.IntN(3) {
		n, width := m.number()
		text := fmt.Sprintf("%0*d", width, n)
		if m.IntN(2) == 0 {
			text += fmt.Sprintf("-%0*d", m.IntN(4), n+m.Uint64N(8))
		}
		out = append(out, text)
	}
	return strings.Join(out, ",")
}

func (m maker) item(brackets int) string {
	if m.IntN(3) == 0 {
		n, width := m.number()
		return m.pick("n", "node-", "x7y", "a.b.", "") + fmt.Sprintf("%0*d", width, n) + m.pick("", "", "-ib", "x")
	}
	var b strings.Builder
	for i := range 1 + m.IntN(brackets) {
		b.WriteString(m.pick("n", "node-", "r0", "127.0.", "_"))
		if i == 0 && m.IntN(8) == 0 {
			b.Reset() // starts with a bracket
		}
		b.WriteString("[" + m.ranges() + "]")
	}
	return b.String()
}

func (m maker) list(brackets int) string {
	var items []string
	for range 1 + m.IntN(4) {
		items = append(items, m.item(brackets))
	}
	return strings.Join(items, m.pick(",", ",", ", ", " ,", "\t", ",,"))
}

// mutate breaks a list in one place.
func (m maker) mutate(list string) string {
	i := m.IntN(len(list) + 1)
	junk := m.pick("[", "]", "-", ",", "0", "9", "x", " ", "/2", ":", "[]", "[1-2]", "[3-1]", "*")
	return list[:i] + junk + list[min(len(list), i+m.IntN(3)):]
}

// What Slurm expands we expand alike, and nothing that it refuses, except the
// text behind a bracket.
//
// covers: CD-1, C.3
func TestExpandAsSlurm(t *testing.T) {
	slurmtest.Lab(t, os.Environ())
	m := maker{rand.New(rand.NewPCG(1, 2))}
	same, refused, stricter := 0, 0, 0
	for range 400 {
		sound := m.IntN(3) > 0
		list := ""
		if sound {
			list = m.list(4)
		} else { // one bracket: broken ranges of several multiply to more than a machine holds
			list = m.mutate(m.list(1))
		}
		hosts, err := hostlist.Expand(list)
		if huge(list) {
			continue
		}
		said, ok := scontrol(t, "hostnames", list)
		switch {
		case err == nil && ok:
			require.Equal(t, strings.Fields(said), append([]string{}, hosts...), "%q", list)
			same++
		case err == nil && suffixed(list):
		case err == nil:
			require.Fail(t, "taken, but Slurm refuses it", "%q: %s", list, said)
		case !ok:
			refused++
		default: // Slurm reads a broken list as something that nobody wrote
			require.False(t, sound, "%q: Slurm reads %q, we say %v", list, said, err)
			stricter++
		}
	}
	t.Logf("%d lists read alike, %d refused by both, %d refused here that Slurm garbles", same, refused, stricter)
	require.Greater(t, same, 200)
	require.Greater(t, refused, 20)
	require.Less(t, stricter, 60)
}

// huge reports numbers at which scontrol may never end, or crash.
func huge(list string) bool {
	for _, digits := range strings.FieldsFunc(list, func(r rune) bool { return r < '0' || r > '9' }) {
		if n, err := strconv.ParseUint(digits, 10, 64); err != nil || n == math.MaxUint64 {
			return true
		}
	}
	return false
}

// suffixed reports whether text follows an item's last bracket, which Slurm
// refuses.
func suffixed(list string) bool {
	for i := range list {
		if list[i] == ']' && i+1 < len(list) && !strings.ContainsRune(", \t\n", rune(list[i+1])) {
			rest := list[i+1:]
			if end := strings.IndexAny(rest, ", \t\n["); end < 0 || rest[end] != '[' {
				return true
			}
		}
	}
	return false
}

// What we format is what Slurm formats, and Slurm reads it back.
//
// covers: C.3
func TestFormatAsSlurm(t *testing.T) {
	slurmtest.Lab(t, os.Environ())
	m := maker{rand.New(rand.NewPCG(3, 4))}
	seen := 0
	for range 300 {
		var hosts []string
		for range 1 + m.IntN(3) {
			if expanded, err := hostlist.Expand(m.item(4)); err == nil {
				hosts = append(hosts, expanded...)
			}
		}
		if len(hosts) == 0 || len(hosts) > 500 {
			continue
		}
		seen++
		said, ok := scontrol(t, "hostlist", strings.Join(hosts, ","))
		require.True(t, ok, said)
		require.Equal(t, said, hostlist.Format(hosts))
		back, ok := scontrol(t, "hostnames", hostlist.Format(hosts))
		require.True(t, ok, back)
		require.Equal(t, hosts, strings.Fields(back))
	}
	require.Greater(t, seen, 200)
}

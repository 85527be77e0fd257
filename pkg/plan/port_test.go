package plan_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/plan"
)

// covers: CD-14, PL-G11, SRV-11
func TestFirstSlotSpreads(t *testing.T) {
	const start = 4_294_960_000 // ids as large as Slurm's
	seen := map[int]int{}
	for id := start; id < start+plan.Slots; id++ {
		slot := plan.FirstSlot(id)
		require.True(t, slot >= 0 && slot < plan.Slots, "%d", slot)
		require.Equal(t, slot, plan.FirstSlot(id), "the same for the same job")
		seen[slot]++
		for next := 1; next <= 4; next++ {
			// Slots lie on a ring: the distance of two of them goes either way.
			d := (plan.FirstSlot(id+next) - slot + plan.Slots) % plan.Slots
			require.GreaterOrEqual(t, min(d, plan.Slots-d), 5, "jobs %d and %d begin at slots %d and %d", id, id+next,
				slot, plan.FirstSlot(id+next))
		}
	}
	require.Len(t, seen, plan.Slots, "as many neighbours as slots, and each has its own")
	for _, id := range []int{0, -1, -1 << 62, 1<<62 + 1} {
		require.True(t, plan.FirstSlot(id) >= 0 && plan.FirstSlot(id) < plan.Slots, "%d", id)
	}
}

func TestUsableSlot(t *testing.T) {
	for _, c := range []struct {
		name  string
		ports []plan.Port
		slot  int
		err   string
	}{
		{"none", nil, 0, ""},
		{"lowest", []plan.Port{{Name: "a", Base: 1024, Step: 1, Count: 1}}, 0, ""},
		{"below", []plan.Port{{Name: "a", Base: 1023, Step: 1, Count: 1}}, 0, `port "a" is 1023, outside 1024-65535`},
		{"below in slot 0, not in slot 1", []plan.Port{{Name: "a", Base: 1023, Step: 1, Count: 1}}, 1, ""},
		{"highest", []plan.Port{{Name: "a", Base: 65535, Step: 1, Count: 1}}, 0, ""},
		{"above", []plan.Port{{Name: "a", Base: 65535, Step: 1, Count: 1}}, 1, `port "a" is 65536, outside 1024-65535`},
		{"count runs above", []plan.Port{{Name: "a", Base: 65534, Step: 1, Count: 3}}, 0, `port "a" is 65536`},
		{"before Ray", []plan.Port{{Name: "a", Base: 10001, Step: 1, Count: 1}}, 0, ""},
		{"Ray's first", []plan.Port{{Name: "a", Base: 10001, Step: 1, Count: 1}}, 1, `port "a" is 10002, in the range 10002-19999 of Ray's workers`},
		{"Ray's last", []plan.Port{{Name: "a", Base: 19999, Step: 1, Count: 1}}, 0, `of Ray's workers, which run on the nodes of "ray"`},
		{"behind Ray", []plan.Port{{Name: "a", Base: 20000, Step: 1, Count: 1}}, 0, ""},
		{"count runs into Ray", []plan.Port{{Name: "a", Base: 10000, Step: 1, Count: 3}}, 0, `port "a" is 10002`},
		{"twice", []plan.Port{{Name: "a", Base: 8300, Step: 1, Count: 1}, {Name: "b", Base: 8300, Step: 1, Count: 1}}, 7, `ports "a" and "b" are both 8307`},
		{"steps that meet", []plan.Port{{Name: "a", Base: 8300, Step: 2, Count: 2}, {Name: "b", Base: 8305, Step: 1, Count: 1}}, 4, `ports "a" and "b" are both 8309`},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := withRay(c.ports).UsableSlot(c.slot)
			if c.err == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.err)
		})
	}
}

// withRay is a plan of these ports with a role on the first node that runs Ray.
func withRay(ports []plan.Port) *plan.Plan {
	return &plan.Plan{Ports: ports, Roles: []plan.Role{{Name: "ray", Ray: true, Nodes: plan.Slice{Count: 1}}}}
}

// Ray's range concerns the nodes that Ray runs on.
func TestRayRangeIsOfRaysNodes(t *testing.T) {
	p := withRay([]plan.Port{{Name: "a", Base: 15000, Step: 1, Count: 1, Role: "other"}})
	p.Roles = append(p.Roles, plan.Role{Name: "other", Nodes: plan.Slice{Offset: 1, Count: 1}})
	require.NoError(t, p.UsableSlot(0))
	p.Roles[1].Nodes.Offset = 0
	require.ErrorContains(t, p.UsableSlot(0), `port "a" is 15000`)
	p.Roles[0].Ray = false
	require.NoError(t, p.UsableSlot(0))
}

// Slots with a port that an outgoing connection may take come last.
func TestUsableSlotsOrder(t *testing.T) {
	for _, c := range []struct {
		base, first int
		slots       int
		begin       int
	}{
		{8300, 7, 100, 7}, {32700, 60, 100, 60}, {32700, 70, 100, 0}, {32768, 5, 100, 5}, {60990, 3, 100, 10}, {60990, 50, 100, 50}, {65500, 50, 36, 0}, {65500, 3, 36, 3},
	} {
		p := &plan.Plan{Ports: []plan.Port{{Name: "a", Base: c.base, Step: 1, Count: 1}}}
		slots := p.UsableSlots(c.first)
		require.Len(t, slots, c.slots, "%+v", c)
		require.Equal(t, c.begin, slots[0], "%+v", c)
		seen := map[int]bool{}
		risky := false
		for _, s := range slots {
			in := plan.Ephemeral.Has(c.base + s)
			require.False(t, risky && !in, "%+v: slot %d behind one in the range", c, s)
			require.False(t, seen[s])
			risky, seen[s] = risky || in, true
		}
	}
}

// Whatever the ports are, a usable slot has none in Ray's range, none outside
// the unprivileged ports, and none twice.
//
// covers: CD-45
func TestUsableSlotsAreSafe(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	usable, refused := 0, 0
	for range 2000 {
		var ports []plan.Port
		for i := range 1 + rng.IntN(6) {
			ports = append(ports,
				plan.Port{Name: string(rune('a' + i)), Base: 900 + rng.IntN(66000), Step: rng.IntN(20),
					Count: 1 + rng.IntN(16)})
		}
		for slot := range plan.Slots {
			if withRay(ports).UsableSlot(slot) != nil {
				refused++
				continue
			}
			usable++
			seen := map[int]bool{}
			for _, p := range ports {
				for k := range p.Count {
					n := p.Base + slot*p.Step + k
					if seen[n] || n < 1024 || n > 65535 || n >= 10002 && n <= 19999 {
						t.Fatalf("slot %d of %+v: port %d", slot, ports, n)
					}
					seen[n] = true
				}
			}
		}
	}
	require.Positive(t, usable)
	require.Positive(t, refused)
}

func TestPortBeforeTheSlotIsKnown(t *testing.T) {
	require.Equal(t, "8300 + slot", plan.Port{Base: 8300, Step: 1}.String())
	require.Equal(t, "8400 + 4 x slot", plan.Port{Base: 8400, Step: 4}.String())
}

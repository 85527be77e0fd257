package collect

import (
	"time"

	"github.com/profllm/profllm/pkg/job"
	"github.com/profllm/profllm/pkg/validity"
)

// addDeaths adds the roles that ended before their time.
func addDeaths(e *evidence, d *draft) {
	for _, x := range e.events {
		if x.Event == job.RoleDied && e.concerns(x.Time) {
			d.facts.Died = append(d.facts.Died, roleEnd(e, &d.late, x))
		}
	}
}

// roleEnd is what is known of a role's end before its time.
func roleEnd(e *evidence, w *warnings, x job.Event) validity.RoleEnd {
	end := validity.RoleEnd{Role: x.Role, Node: e.host(x.Role), Exit: e.exitOf(x.Role)}
	if e.plan == nil || e.load == nil || e.load.Client == "" {
		return end
	}
	role := e.plan.Role(x.Role)
	if role == nil || role.Group || e.plan.Replicas(role.KindName()) < 2 {
		return end
	}
	end.Spared = &validity.Spared{Kind: role.KindName(), Of: e.plan.Replicas(role.KindName())}
	ended := clientEnd(e.events, e.load.Phase(e.load.Clients[0].Name)) // who measures comes first
	if ended.IsZero() {
		return end
	}
	left := ended.Sub(x.Time).Seconds()
	end.Spared.BeforeEnd = &left
	if left > 0 && firstDeath(e.events, x) {
		end.Spared.Before = pace(e, w, role.KindName(), job.Before, job.Died, x.Time.Sub(readySince(e.events)))
		end.Spared.After = pace(e, w, role.KindName(), job.Died, job.Ended, ended.Sub(x.Time))
	}
	return end
}

// clientEnd is when a phase's client ended, zero if nobody saw it.
func clientEnd(events []job.Event, phase string) time.Time {
	for _, x := range events {
		if x.Event == job.ClientEnded && x.Text == phase {
			return x.Time
		}
	}
	return time.Time{}
}

// readySince is when the first client could begin.
func readySince(events []job.Event) time.Time {
	for _, x := range events {
		if x.Event == job.AllReady {
			return x.Time
		}
	}
	return time.Time{}
}

// firstDeath reports whether x is the only one of its kind of event: counters
// are kept at the first, and with a second the time behind it is no longer one
// state.
func firstDeath(events []job.Event, x job.Event) bool {
	for _, o := range events {
		if o.Event == job.RoleDied && o.Role != x.Role {
			return false
		}
	}
	return true
}

// pace adds up the counters of a kind's instances between two pages.
func pace(e *evidence, w *warnings, kind, from, to string, took time.Duration) *validity.Pace {
	p := validity.Pace{Seconds: took.Seconds()}
	seen := 0
	for _, role := range e.plan.Roles {
		if role.KindName() != kind {
			continue
		}
		d := difference(e, w, role.Name, from, to)
		if d == nil {
			continue // the one that ended has no later page
		}
		n, ok := d.Sum("vllm:e2e_request_latency_seconds_count")
		if !ok {
			continue
		}
		sum, _ := d.Sum("vllm:e2e_request_latency_seconds_sum")
		p.Requests += n
		p.Latency += sum
		seen++
	}
	if seen == 0 || p.Seconds <= 0 {
		return nil
	}
	return &p
}

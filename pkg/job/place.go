package job

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"net"
	"os"
	"slices"
	"sort"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/profllm/profllm/pkg/hostlist"
	"github.com/profllm/profllm/pkg/lazyregexp"
	"github.com/profllm/profllm/pkg/node"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/quantity"
	"github.com/profllm/profllm/pkg/render"
	"github.com/profllm/profllm/pkg/run"
)

// slotsTried is how many port slots a node looks at; with that many jobs on one
// node something else is wrong.
const slotsTried = 16

// hardwareWord begins the word of a node's line that names its hardware.
const hardwareWord = "hardware="

// Node runs once on each node. It prints the checks of the node, and then one line "node
// HOST ADDR SLOT…" with the port slots that cannot be used here, see [slotWord], the node's
// hardware if engines compile into a folder of the plan, and its interface if the plan asks. The lines travel through
// srun, because another node may see a shared file late.
func (j *Job) Node(ctx context.Context) error {
	p, err := run.ReadPlan(j.Dir)
	if err != nil {
		return err
	}
	hosts, err := j.hosts(p)
	if err != nil {
		return err
	}
	name := j.Env("SLURMD_NODENAME")
	index := -1
	for i, h := range hosts {
		if h == name {
			index = i
		}
	}
	if index < 0 {
		return fmt.Errorf("node %q is not among the first %d of the allocation %q", name, p.Job.Nodes,
			j.Env("SLURM_JOB_NODELIST"))
	}
	addr := j.Env("PROFLLM_NODE_ADDR")
	if addr == "" {
		addr = ownAddress(name, hosts)
	}
	if err := j.look(p, index).Report(ctx).Write(j.Stdout); err != nil {
		return err
	}
	words := []string{"node", name, addr}
	outgoing := ephemeral()
	for _, slot := range slots(p, j.number()) {
		taken, risky, err := occupied(p, slot, index, j.Env("PROFLLM_NODE_ADDR"), outgoing)
		switch {
		case err != nil:
			return fmt.Errorf("node %s: %w", name, err)
		case taken > 0:
			words = append(words, slotWord{slot, taken, true}.String())
		case risky > 0:
			words = append(words, slotWord{slot, risky, false}.String())
		}
	}
	if p.CompileCache != nil {
		if err := makeCache(p.CompileCache.Root); err != nil {
			return fmt.Errorf("node %s: %w", name, err)
		}
		words = append(words, hardwareWord+hardware(os.DirFS("/proc")))
	}
	if name := interfaceOf(p.SocketInterface, addr); name != "" {
		words = append(words, interfaceWord+name)
	}
	_, err = fmt.Fprintln(j.Stdout, strings.Join(words, " "))
	return err
}

// hosts lists the nodes of the run, the first of the allocation: it is larger if
// it serves several runs.
func (j *Job) hosts(p *plan.Plan) ([]string, error) {
	hosts, err := hostlist.Expand(j.Env("SLURM_JOB_NODELIST"))
	if err != nil {
		return nil, err
	}
	if len(hosts) < p.Job.Nodes {
		return nil, fmt.Errorf("the allocation has %s (%s), the plan %d", quantity.Count(len(hosts), "node"),
			j.Env("SLURM_JOB_NODELIST"), p.Job.Nodes)
	}
	return hosts[:p.Job.Nodes], nil
}

// slots lists the slots that a job looks at, the preferred one first.
func slots(p *plan.Plan, jobID int) []int {
	list := p.UsableSlots(plan.FirstSlot(jobID))
	return list[:min(len(list), slotsTried)]
}

// number is where the job begins to look for free ports: its id, or a digest of that of a
// local job.
func (j *Job) number() int {
	id := j.Env("SLURM_JOB_ID")
	if n, err := strconv.Atoi(id); err == nil {
		return n
	}
	digest := fnv.New32a()
	digest.Write([]byte(id))
	return int(digest.Sum32())
}

// slotWord is what a node says of a port slot that is not good on it.
type slotWord struct {
	slot, port int
	taken      bool // else the port is in the node's range for outgoing connections
}

// String is SLOT:PORT for a taken port and SLOT~PORT for the other.
func (w slotWord) String() string {
	if w.taken {
		return fmt.Sprintf("%d:%d", w.slot, w.port)
	}
	return fmt.Sprintf("%d~%d", w.slot, w.port)
}

// parseSlotWord is the reverse of String.
func parseSlotWord(s string) (slotWord, bool) {
	slot, port, taken := strings.Cut(s, ":")
	if !taken {
		slot, port, _ = strings.Cut(s, "~")
	}
	n, err := strconv.Atoi(slot)
	m, portErr := strconv.Atoi(port)
	return slotWord{n, m, taken}, err == nil && portErr == nil
}

// occupied finds a port of a slot that is taken on node index, else one that an
// outgoing connection may take; 0 for none. bind is the address to try, "" for all.
func occupied(p *plan.Plan, slot, index int, bind string, outgoing plan.PortRange) (taken, risky int, err error) {
	for _, port := range p.Ports {
		on := plan.Slice{Count: 1} // of no role: of a step that starts on the first node
		if role := p.Role(port.Role); role != nil {
			on = role.Nodes
		} else if port.Role != "" {
			continue
		}
		if index < on.Offset || index >= on.End() {
			continue
		}
		for n := port.At(slot); n < port.At(slot)+port.Count; n++ {
			if outgoing.Has(n) {
				risky = n
			}
			err := bindable(bind, n)
			if errors.Is(err, syscall.EADDRINUSE) {
				return n, 0, nil
			}
			if err != nil {
				return 0, 0, err
			}
		}
	}
	return 0, risky, nil
}

// bindable reports why a server could not have a port of this node. It binds the port as a
// server does but does not listen, and so is in no server's way: another job's may start in
// the same moment.
func bindable(addr string, port int) error {
	ip, family := net.ParseIP(cmp.Or(addr, "::")), syscall.AF_INET6
	if ip == nil {
		return fmt.Errorf("%q is not an IP address", addr)
	}
	if ip.To4() != nil {
		family = syscall.AF_INET
	}
	fd, err := syscall.Socket(family, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if errors.Is(err, syscall.EAFNOSUPPORT) && addr == "" {
		return bindable("0.0.0.0", port)
	}
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	defer syscall.Close(fd)
	var to syscall.Sockaddr = &syscall.SockaddrInet6{Port: port, Addr: [16]byte(ip.To16())}
	if family == syscall.AF_INET {
		to = &syscall.SockaddrInet4{Port: port, Addr: [4]byte(ip.To4())}
	} else if addr == "" {
		err = syscall.SetsockoptInt(fd, syscall.IPPROTO_IPV6, syscall.IPV6_V6ONLY, 0)
	}
	err = cmp.Or(err, syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1), syscall.Bind(fd, to))
	if err != nil {
		return &net.OpError{Op: "bind", Net: "tcp", Addr: &net.TCPAddr{IP: ip, Port: port}, Err: err}
	}
	return nil
}

// ephemeral is the range from which this node's kernel takes ports for outgoing
// connections.
func ephemeral() plan.PortRange {
	var r plan.PortRange
	data, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err == nil {
		if _, err := fmt.Sscan(string(data), &r.Low, &r.High); err == nil {
			return r
		}
	}
	return plan.Ephemeral
}

// ownAddress finds the address by which the other nodes reach this one: the one
// the kernel uses towards another node of the job. Alone, the address of the own
// name, if it is not a loopback one.
func ownAddress(name string, hosts []string) string {
	for _, h := range hosts {
		if h == name {
			continue
		}
		if c, err := net.Dial("udp", net.JoinHostPort(h, "9")); err == nil { // sends nothing
			defer c.Close()
			if a, ok := c.LocalAddr().(*net.UDPAddr); ok && !a.IP.IsLoopback() {
				return a.IP.String()
			}
		}
	}
	addrs, _ := net.LookupHost(name)
	if ifs, err := net.InterfaceAddrs(); err == nil {
		for _, a := range ifs {
			if n, ok := a.(*net.IPNet); ok {
				addrs = append(addrs, n.IP.String())
			}
		}
	}
	return reachable(addrs)
}

// reachable is the first address that another node can reach, as far as that can be told.
func reachable(addrs []string) string {
	for _, a := range addrs {
		if ip := net.ParseIP(a); ip != nil && ip.To4() != nil && !ip.IsLoopback() && !ip.IsLinkLocalUnicast() {
			return a
		}
	}
	return "127.0.0.1"
}

// Place reads the lines of Node until every node has answered, and refuses nodes on which
// servers should not start. It takes the first port slot that is free on all nodes, and
// writes preflight.json, placement.json and job.env. began is when the nodes were asked,
// zero if that is not known.
func (j *Job) Place(ctx context.Context, lines io.Reader, began time.Time) error {
	p, err := run.ReadPlan(j.Dir)
	if err != nil {
		return err
	}
	for _, name := range p.OneLine {
		if strings.Contains(j.Env(name), "\n") {
			return fmt.Errorf("%s has a line break, and pyxis would turn each line into a variable\n\thint: write the value as text in extra_env_vars", name)
		}
	}
	hosts, err := j.hosts(p)
	if err != nil {
		return err
	}
	a, err := j.answers(lines, hosts)
	if err != nil {
		return err
	}
	place := run.Placement{Schema: "profllm.placement/1", JobID: j.id(), Slot: -1, Ports: map[string]int{}}
	for _, h := range hosts {
		if a.addr[h] == "" {
			return fmt.Errorf("node %s did not answer", h)
		}
		place.Nodes = append(place.Nodes, run.Node{Host: h, Addr: a.addr[h]})
	}
	tried := slots(p, j.number())
	if place.Slot, err = j.choose(ctx, p, hosts, tried, a); err != nil {
		return err
	}
	if err := j.preflight(ctx, p, hosts, a, began, place.Slot, tried); err != nil {
		return err
	}
	if place.Slot < 0 {
		return errors.New("no port slot is usable: the plan's ports are out of range")
	}
	for _, port := range p.Ports {
		place.Ports[port.Name] = port.At(place.Slot)
	}
	place.Simulator = j.simulator(p)
	sockets, err := j.socketExports(p, hosts, a.interfaces)
	if err != nil {
		return err
	}
	if err := run.WriteJSON(j.path(run.PlacementFile), place); err != nil {
		return err
	}
	if err := j.writeFiles(p, &place); err != nil {
		return err
	}
	j.banner(p, &place)
	return run.WriteFile(j.path("job.env"), []byte(environment(p, &place, a.hardware, sockets)), 0o644)
}

// writeFiles writes the files of the test, with the addresses and ports that they name.
func (j *Job) writeFiles(p *plan.Plan, place *run.Placement) error {
	if len(p.Files) == 0 {
		return nil
	}
	if err := os.MkdirAll(j.path(plan.FilesDir), 0o755); err != nil {
		return err
	}
	for _, f := range p.Files {
		var text strings.Builder
		for _, part := range f.Text {
			switch {
			case part.Addr != "":
				role := p.Role(part.Addr)
				if role == nil || role.Nodes.Offset >= len(place.Nodes) {
					return fmt.Errorf("file %s: no node of %q", f.Name, part.Addr)
				}
				text.WriteString(place.Nodes[role.Nodes.Offset].Addr)
			case part.Port != "":
				text.WriteString(strconv.Itoa(place.Ports[part.Port]))
			default:
				text.WriteString(part.Text)
			}
		}
		if err := run.WriteFile(j.path(plan.FilesDir, f.Name), []byte(text.String()), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// choose returns the first slot that is free on all nodes, of those the first without a port
// that an outgoing connection may take; -1 if there is none.
func (j *Job) choose(ctx context.Context, p *plan.Plan, hosts []string, tried []int, a answers) (int, error) {
	free := slices.DeleteFunc(slices.Clone(tried), func(s int) bool { return len(a.taken[s]) > 0 })
	slices.SortStableFunc(free, func(s, t int) int { return min(len(a.risky[s]), 1) - min(len(a.risky[t]), 1) })
	for _, s := range free {
		if j.Lease == nil {
			return s, nil
		}
		var ports []int
		for _, port := range p.Ports {
			for n := range port.Count {
				ports = append(ports, port.At(s)+n)
			}
		}
		taken, err := j.Lease(ctx, ports)
		if err != nil || taken == 0 {
			return s, err
		}
		a.slot(hosts[0], slotWord{s, taken, true}) // leases are of one machine
	}
	return -1, nil
}

// simulator is what the simulated programs of a run take from the job's environment: the test's
// own variables win.
func (j *Job) simulator(p *plan.Plan) map[string]string {
	if !p.Simulated {
		return nil
	}
	set := maps.Clone(j.Simulator)
	for _, v := range p.Env {
		delete(set, v.Name)
	}
	return set
}

// answers is what the nodes said.
type answers struct {
	addr       map[string]string
	taken      map[int]map[string]int // slot of ports → host → a port that is taken there
	risky      map[int]map[string]int // slot of ports → host → a port that an outgoing connection may take there
	hardware   []string               // of nodes that named it
	interfaces map[string]string      // host → the interface by which it reaches the others, if the plan asks for it
	lines      node.Lines
	at         map[string]time.Time // when the answer was complete, by this node's clock
}

func (j *Job) answers(lines io.Reader, hosts []string) (answers, error) {
	a := answers{addr: map[string]string{}, taken: map[int]map[string]int{}, risky: map[int]map[string]int{},
		interfaces: map[string]string{}, at: map[string]time.Time{}}
	scan := bufio.NewScanner(lines)
	missing := len(hosts)
	for missing > 0 && scan.Scan() {
		f := strings.Fields(scan.Text())
		if len(f) < 3 || f[0] != "node" || net.ParseIP(f[2]) == nil {
			a.lines.Add(scan.Bytes()) // or what a site's prolog prints
			continue
		}
		if a.addr[f[1]] == "" && slices.Contains(hosts, f[1]) {
			missing--
		}
		a.addr[f[1]], a.at[f[1]] = f[2], j.Now()
		for _, s := range f[3:] {
			if w, ok := parseSlotWord(s); ok {
				a.slot(f[1], w)
			}
			if name, ok := strings.CutPrefix(s, hardwareWord); ok && hardwareName.MatchString(name) {
				a.hardware = append(a.hardware, name)
			}
			if name, ok := strings.CutPrefix(s, interfaceWord); ok && interfaceName.MatchString(name) {
				a.interfaces[f[1]] = name
			}
		}
	}
	return a, scan.Err()
}

// slot keeps what a host said of a slot.
func (a *answers) slot(host string, w slotWord) {
	of := a.risky
	if w.taken {
		of = a.taken
	}
	if of[w.slot] == nil {
		of[w.slot] = map[string]int{}
	}
	of[w.slot][host] = w.port
}

// environment is job.env: what the script's variables mean in this job.
func environment(p *plan.Plan, place *run.Placement, hardware, sockets []string) string {
	var lines []string
	for _, r := range p.Roles {
		nodes := 1
		if r.Helper {
			nodes = max(1, r.Nodes.Count) // clients may read the counters of each
		}
		for n := range nodes {
			lines = append(lines, render.AddrVar(plan.AddrOf(r.Name, n).Addr)+"="+place.Nodes[r.Nodes.Offset+n].Addr)
		}
	}
	for name, n := range place.Ports {
		lines = append(lines, render.PortVar(name)+"="+strconv.Itoa(n))
	}
	sort.Strings(lines)
	if p.CompileCache != nil {
		lines = append(lines, cacheExports(p.CompileCache, hardware)...)
	}
	lines = append(lines, sockets...)
	if p.Simulated {
		lines = append(lines, "export "+SimulatedVar+"=1")
	}
	if n := p.Speed(); n > 1 {
		lines = append(lines, "export "+simulatedSpeedVar+"="+strconv.Itoa(n))
	}
	if r := simulatedFlags(&p.Config); p.Simulated && r != "" {
		lines = append(lines, fmt.Sprintf("export %s=${%[1]s-%s}", simulatedFlagsVar, r)) // the user's, if there is one
	}
	return strings.Join(lines, "\n") + "\n"
}

// simulatedFlags are whose options the simulated engine has. A name that is none of an option could
// be shell text.
func simulatedFlags(c *plan.Config) string {
	names := []string{c.Release}
	for _, name := range c.OwnOptions {
		if optionName.MatchString(name) {
			names = append(names, name)
		}
	}
	return strings.Join(names, ",")
}

var optionName = lazyregexp.New(`^[a-z0-9][a-z0-9_.]*$`)

// SimulatedVar tells profllm's own load client in a job that the engine is simulated: it
// marks its result, which may leave the run.
const SimulatedVar = "PROFLLM_SIMULATED"

// simulatedFlagsVar tells the simulated `vllm serve` whose options it has.
const simulatedFlagsVar = "PROFLLM_SIM_FLAGS"

// simulatedSpeedVar tells the stand-ins in a job how many times faster simulated time
// passes.
const simulatedSpeedVar = "PROFLLM_SIM_SPEED"

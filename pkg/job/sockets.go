package job

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/config"
	"github.com/profllm/profllm/pkg/lazyregexp"
	"github.com/profllm/profllm/pkg/plan"
)

// interfaceWord begins the word of a node's line that names its interface.
const interfaceWord = "interface="

// interfaceName is what the kernel takes for a name and a shell for a word.
var interfaceName = lazyregexp.New(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,14}$`)

// interfaceOf returns the interface of this node that the plan asks for, "" if it is not here. For
// config.AutoInterface, it is the one that has the address by which the other nodes reach this
// one, else the one of the default route.
func interfaceOf(asked, addr string) string {
	switch asked {
	case "":
		return ""
	case config.AutoInterface:
		if name := interfaceWith(net.ParseIP(addr)); name != "" {
			return name
		}
		table, _ := os.ReadFile(proc + "/net/route")
		return defaultRoute(table)
	}
	if _, err := net.InterfaceByName(asked); err != nil {
		return ""
	}
	return asked
}

// interfaceWith returns the interface that has an address which other nodes reach, "" for none.
func interfaceWith(ip net.IP) string {
	all, err := net.Interfaces()
	if err != nil || ip == nil || ip.IsLoopback() {
		return ""
	}
	for _, i := range all {
		addrs, _ := i.Addrs()
		for _, a := range addrs {
			if n, ok := a.(*net.IPNet); ok && n.IP.Equal(ip) {
				return i.Name
			}
		}
	}
	return ""
}

// defaultRoute returns the interface of the first default route in a table as /proc/net/route has
// it: columns Iface, Destination and Mask come first, second and eighth (proc(5)).
func defaultRoute(table []byte) string {
	for line := range bytes.Lines(table) {
		if f := strings.Fields(string(line)); len(f) >= 8 && f[1] == "00000000" && f[7] == "00000000" {
			return f[0]
		}
	}
	return ""
}

// socketExports are the lines of job.env that name the interface by which nodes reach each other.
// What the job has set already stays. NCCL takes names for the beginnings of names unless an
// equals sign comes first, and it alone takes a list.
func (j *Job) socketExports(p *plan.Plan, hosts []string, of map[string]string) ([]string, error) {
	if p.SocketInterface == "" {
		return nil, nil
	}
	var names []string
	for _, h := range hosts {
		switch {
		case of[h] != "":
			names = append(names, of[h])
		case p.SocketInterface == config.AutoInterface:
			j.logf("socket_interface: cannot tell by which interface %s reaches the others: no variable is set", h)
			return nil, nil
		default:
			return nil, fmt.Errorf("socket_interface: node %s has no interface %q", h, p.SocketInterface)
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	values := map[string]string{plan.SocketVars[0]: "=" + strings.Join(names, ",")}
	if len(names) == 1 {
		values[plan.SocketVars[1]], values[plan.SocketVars[2]] = names[0], names[0]
	} else {
		j.logf("socket_interface: the nodes' interfaces have different names (%s): only %s is set",
			strings.Join(names, ", "), plan.SocketVars[0])
	}
	var lines []string
	for _, name := range plan.SocketVars {
		if v := values[name]; v != "" {
			lines = append(lines, fmt.Sprintf(`export %s="${%s-%s}"`, name, name, v))
		}
	}
	return lines, nil
}

package hostlist_test

import (
	"fmt"
	"log"

	"github.com/profllm/profllm/pkg/hostlist"
)

// Expand keeps the order and the zeros; Format is its inverse.
func Example() {
	hosts, err := hostlist.Expand("node[08-10],gpu[1-2]")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(hosts)
	fmt.Println(hostlist.Format(hosts))
	_, err = hostlist.Expand("node[10-8]")
	fmt.Println(err)
	// Output:
	// [node08 node09 node10 gpu1 gpu2]
	// node[08-10],gpu[1-2]
	// host list "node[10-8]": range "10-8" runs backwards
}

package container_test

import (
	"fmt"
	"log"

	"github.com/profllm/profllm/pkg/container"
)

// One image, as each runtime names it, and the file in which it is staged.
func Example() {
	ref, err := container.ParseReference("nvcr.io#nvidia/vllm:26.01")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(ref.Plain())
	enroot, err := ref.Enroot()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(enroot)
	importer, _ := container.ImporterOf("enroot")
	file := container.CacheName("nvcr.io#nvidia/vllm:26.01", importer.Extension)
	argv, err := importer.Command(ref, file)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(argv)
	// Output:
	// nvcr.io/nvidia/vllm:26.01
	// nvcr.io#nvidia/vllm:26.01
	// [enroot import -o nvcr.io_nvidia__vllm__26.01.sqsh docker://nvcr.io#nvidia/vllm:26.01]
}

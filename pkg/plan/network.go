package plan

import (
	"cmp"

	"github.com/profllm/profllm/pkg/config"
	"github.com/profllm/profllm/pkg/source"
)

// SocketVars name the interface by which processes of several nodes find each other: of NCCL, of
// Gloo, and of PyTorch's TensorPipe.
var SocketVars = []string{"NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME"}

// networks are the variables of a network by the name of its preset, sorted. None is a path: where
// a library lies is known to its image.
//
// EFA: the variables of libfabric's provider (fi_efa(7)) with RDMA by the device, and safe to
// fork; NCCL's buffers as AWS sizes them for its plugin; NVSHMEM over libfabric, whose memory the
// device cannot register if CUDA maps it by its virtual memory management; MPI without UCX.
var networks = map[string][]Var{
	config.EFA: {
		{"FI_EFA_FORK_SAFE", Text("1")},
		{"FI_EFA_USE_DEVICE_RDMA", Text("1")},
		{"FI_PROVIDER", Text("efa")},
		{"NCCL_BUFFSIZE", Text("8388608")},
		{"NCCL_P2P_NET_CHUNKSIZE", Text("524288")},
		{"NVSHMEM_DISABLE_CUDA_VMM", Text("1")},
		{"NVSHMEM_LIBFABRIC_PROVIDER", Text("efa")},
		{"NVSHMEM_REMOTE_TRANSPORT", Text("libfabric")},
		{"OMPI_MCA_btl", Text("tcp,self")},
		{"OMPI_MCA_btl_tcp_if_exclude", Text("lo,docker0,veth_def_agent")},
		{"OMPI_MCA_pml", Text("^ucx")},
		{"PMIX_MCA_gds", Text("hash")},
		{"RDMAV_FORK_SAFE", Text("1")},
	},
}

// network adds the variables of the preset that the test chooses, else the site. Variables of the
// site and of the test replace them.
func (in *Input) network(merged *source.Table) error {
	if err := config.CheckNetwork(in.Test.Network, in.Test.PosOf("network")); err != nil {
		return err
	}
	for _, v := range networks[cmp.Or(in.Test.Network, in.System.Network)] {
		text, _ := v.Value.Literal()
		merged.Set(v.Name, &source.Value{Pos: in.System.Pos, Any: text})
	}
	return nil
}

// sockets has the job name the interface by which its nodes reach each other, if the site says
// so. A job of one node needs none, and a rehearsal has no nodes.
func (p *Plan) sockets(in Input) {
	if p.Job.Nodes > 1 && !p.Simulated {
		p.SocketInterface = in.System.SocketInterface
	}
}

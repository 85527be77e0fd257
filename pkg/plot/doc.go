// Package plot decides what figures show: which runs stand where, which of them are averaged, what
// is said about them. It knows records and the sweeps of vLLM, and leaves the drawing to package
// figure. Options and definitions of Grid and Pareto are those of vllm bench sweep plot and
// plot_pareto (vLLM 0.32.0).
//
//	t := plot.NewTable(runs, sweeps)
//	figures, err := plot.Grid(t, plot.GridOptions{VarX: "request_throughput", VarY: "p99_e2el_ms"})
package plot

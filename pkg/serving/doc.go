// Package serving decodes a serving test, places its roles on nodes and GPUs, and
// writes tables of a definition file as the command line of an engine or of a
// client. It knows no engine; what differs between them is an argument.
//
//	words := serving.Options(table, serving.StoreTrue) // --tp 4 --enable-metrics
package serving

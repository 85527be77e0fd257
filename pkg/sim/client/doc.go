// Package client stands in for the programs that send requests: the load client and the GSM8K
// script.
package client

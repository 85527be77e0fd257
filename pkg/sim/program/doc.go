// Package program is what every simulated program is given, and how it reads flags and ends.
package program

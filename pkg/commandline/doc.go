// Package commandline reads a command line by its kong model: which command it names, whether it
// asks for help or for JSON, what is wrong with it, what its flags accept, and how a shell can
// complete its last word.
package commandline

// Picket runs a command under a lock, and shows who holds one.
package main

import "os"

func main() {
	os.Exit(execute(os.Args[1:], streams{os.Stdin, os.Stdout, os.Stderr}))
}

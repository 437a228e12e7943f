//go:build !unix

package filestore

// direct is nothing: no directory has FIFOs here.
const direct = 0

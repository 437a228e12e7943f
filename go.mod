module github.com/picket-go/picket

go 1.26.0

require (
	github.com/alicebob/miniredis/v2 v2.40.0
	github.com/gofrs/flock v0.13.2
	github.com/redis/go-redis/v9 v9.23.0
	golang.org/x/sys v0.49.0
	pgregory.net/rapid v1.3.0
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/yuin/gopher-lua v1.1.1 // indirect
	go.uber.org/atomic v1.12.0 // indirect
)

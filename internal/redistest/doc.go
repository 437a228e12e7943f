// Package redistest gives tests real Redis servers, and a network that fails on demand.
//
// [Start] runs one redis-server, [StartSentinels] a master with replicas and three sentinels, [StartCluster] a Redis Cluster, [Shared] one server for all tests
// of a process. They listen on free ports of 127.0.0.1, keep their files in the test's temporary folder, and die with the test; on Linux also with the test
// process, however that ends.
// [StartProxy] stands between a client and a server and loses, delays, repeats or answers single requests and replies.
//
// Without redis-server (or valkey-server) in PATH a test is skipped, and under CI it fails: both say how to install it.
package redistest

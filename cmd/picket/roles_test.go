package main

// play is what this test binary does as a child of picket, for what sh cannot do.
func play(role string) int {
	switch role {
	case "daemon":
		return daemon()
	case "stubborn-parent":
		return stubbornParent()
	}
	return 99
}

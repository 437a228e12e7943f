package main

func daemon() int { return 1 }

func stubbornParent() int { return 1 }

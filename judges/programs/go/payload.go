package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// body is the body of message number index: "PREFIX-index|", then filler byte j = 1 + (index + j) % 255 up to size.
func body(prefix string, index, size int) []byte {
	text := []byte(fmt.Sprintf("%s-%d|", prefix, index))
	for j := 0; len(text) < size; j++ {
		text = append(text, byte(1+(index+j)%255))
	}
	return text
}

func digest(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

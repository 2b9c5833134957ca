package main

import (
	"os"

	"github.com/apache/rocketmq-client-go/v2/primitive"
)

// keys are the account of this process, from its environment; without one nothing is signed.
func keys() primitive.Credentials {
	return primitive.Credentials{AccessKey: os.Getenv("JUDGE_ACCESS_KEY"), SecretKey: os.Getenv("JUDGE_SECRET_KEY")}
}

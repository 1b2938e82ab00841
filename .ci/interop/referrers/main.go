// Command referrers serves an OCI registry in memory, with the referrers API of
// the distribution specification 1.1: go-containerregistry's, whose own command
// leaves that API off. It is a module of its own because its requirements are
// not weighmaster's.
//
//	referrers ADDRESS
package main

import (
	"io"
	"log"
	"net/http"
	"os"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: referrers ADDRESS")
	}
	handler := registry.New(registry.WithReferrersSupport(true), registry.Logger(log.New(io.Discard, "", 0)))
	server := &http.Server{Addr: os.Args[1], Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	log.Fatal(server.ListenAndServe())
}

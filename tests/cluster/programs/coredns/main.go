// A CoreDNS that knows Services, and says of every other name that it does not exist: the cluster has no way out.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"

	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/ready"
	_ "github.com/coredns/coredns/plugin/template"
)

func main() {
	// Plugins are asked in this order, whatever the Corefile says; template answers what is left.
	dnsserver.Directives = []string{"errors", "health", "ready", "cache", "kubernetes", "template"}
	coremain.Run()
}

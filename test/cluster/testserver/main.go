// Command testserver is what the cluster's own tests run in pods: it tells over
// HTTP who it is and who asked, and takes its time to end.
//
//	GET /         the name of the pod and the address of the client
//	GET /file?p=  a file's content
package main

import (
	"flag"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	listen := flag.String("listen", ":8080", "address to serve on")
	linger := flag.Duration("linger", 0, "how long to go on after a signal to end")
	flag.Parse()

	http.HandleFunc("/{$}", func(w http.ResponseWriter, r *http.Request) {
		name, _ := os.Hostname()
		fmt.Fprintln(w, name, r.RemoteAddr)
	})
	http.HandleFunc("/file", func(w http.ResponseWriter, r *http.Request) {
		content, err := os.ReadFile(r.URL.Query().Get("p"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusNotFound)
			return
		}
		w.Write(content)
	})
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM, os.Interrupt)
	go func() {
		<-end
		log.Printf("ending in %s", *linger)
		time.Sleep(*linger)
		os.Exit(0)
	}()
	log.Printf("serving on %s", *listen)
	log.Fatal(http.ListenAndServe(*listen, nil))
}

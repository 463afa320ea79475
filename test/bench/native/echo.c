/*
 * The floor: what a UDP answer costs when a program does nothing but receive
 * and send. It copies the question, appends one address record and returns the
 * lot, in batches, as the fastest DNS server could at best.
 *
 *   echo PORT THREADS
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum { BATCH = 32, ROOM = 1500 };

/* One A record whose owner is the question's name. */
static const unsigned char record[] = {0xc0, 12, 0, 1, 0, 1, 0, 0, 0x0e, 0x10, 0, 4, 192, 0, 2, 1};

static int port;

static int listen_udp(void) {
	int fd = socket(AF_INET, SOCK_DGRAM, 0), one = 1, room = 4 << 20;
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof one);
	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
	if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof at) != 0) {
		perror("echo: bind");
		exit(1);
	}
	return fd;
}

static unsigned answer(unsigned char *m, unsigned len) {
	if (len < 12)
		return len;
	m[2] = 0x81; /* a response, recursion desired */
	m[3] = 0x80; /* recursion available, no error */
	m[7] = 1;    /* one answer */
	memcpy(m + len, record, sizeof record);
	return len + sizeof record;
}

static void *serve(void *unused) {
	static __thread unsigned char bytes[BATCH][ROOM + sizeof record];
	static __thread struct sockaddr_in from[BATCH];
	static __thread struct iovec io[BATCH];
	static __thread struct mmsghdr msgs[BATCH];
	int fd = listen_udp();

	(void)unused;
	for (int i = 0; i < BATCH; i++) {
		io[i].iov_base = bytes[i];
		msgs[i].msg_hdr.msg_iov = &io[i];
		msgs[i].msg_hdr.msg_iovlen = 1;
		msgs[i].msg_hdr.msg_name = &from[i];
	}
	for (;;) {
		for (int i = 0; i < BATCH; i++) {
			io[i].iov_len = ROOM;
			msgs[i].msg_hdr.msg_namelen = sizeof from[i];
		}
		int n = recvmmsg(fd, msgs, BATCH, MSG_WAITFORONE, NULL);
		for (int i = 0; i < n; i++)
			io[i].iov_len = answer(bytes[i], msgs[i].msg_len);
		for (int sent = 0; sent < n;) {
			int k = sendmmsg(fd, msgs + sent, n - sent, 0);
			sent += k > 0 ? k : 1; /* what one receiver refuses does not stop the rest */
		}
	}
	return NULL;
}

int main(int argc, char **argv) {
	if (argc != 3) {
		fprintf(stderr, "usage: echo PORT THREADS\n");
		return 2;
	}
	port = atoi(argv[1]);
	for (int i = atoi(argv[2]); i > 1; i--) {
		pthread_t t;
		if (pthread_create(&t, NULL, serve, NULL) != 0) {
			perror("echo: thread");
			return 1;
		}
	}
	serve(NULL);
	return 0;
}

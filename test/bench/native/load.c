/*
 * A load client that is not the first to be saturated: questions and answers
 * go in batches, and one process keeps many sockets busy.
 *
 *   load -p PORT -n NAMES -d SECONDS -s SOCKETS -w WINDOW   closed loop
 *   load -p PORT -n NAMES -d SECONDS -s SOCKETS -r RATE     open loop
 *   load -p PORT -u COUNT [-o FIRST] -z SUFFIX ...          each name once
 *
 * Closed loop: each socket has WINDOW questions out and asks the next when one
 * is answered, so the server is never idle and is not drowned either.
 *
 * Open loop: questions are due at fixed times whatever the answers do, and an
 * answer's latency counts from when its question was due, not from when it was
 * sent: a client that is held up must not hide a server that is slow.
 *
 * An answer counts once, and only if its question is out, it is a response
 * without error and has a record; else it is bad. A question is lost when it was
 * out for half a second (with -u: two); an answer that comes after that is late,
 * and was work for the server all the same.
 *
 * Prints one JSON object.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { BATCH = 64, MAX_SOCKETS = 128, MAX_NAMES = 1 << 17, MAX_QUERY = 320, ROOM = 2048 };

typedef uint64_t nanos;

static nanos now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (nanos)t.tv_sec * 1000000000u + (nanos)t.tv_nsec;
}

static void die(const char *what) {
	perror(what);
	exit(1);
}

/* --- what is asked ------------------------------------------------------- */

struct query {
	unsigned len;
	unsigned char wire[MAX_QUERY];
};

static struct query *queries; /* from the file of names */
static unsigned known;
static int edns;

/* build writes the question for a name; 0 if the name is no name. */
static unsigned build(unsigned char *to, const char *name, unsigned type) {
	unsigned at = 12;
	memset(to, 0, 12);
	to[2] = 1; /* recursion desired */
	to[5] = 1;
	while (*name) {
		size_t label = strcspn(name, ".");
		if (label == 0 || label > 63 || at + label > 265)
			return 0;
		to[at++] = (unsigned char)label;
		memcpy(to + at, name, label);
		at += label;
		name += label;
		if (*name == '.')
			name++;
	}
	unsigned char tail[] = {0, (unsigned char)(type >> 8), (unsigned char)type, 0, 1};
	memcpy(to + at, tail, sizeof tail);
	at += sizeof tail;
	if (edns) {
		static const unsigned char opt[] = {0, 0, 41, 0x04, 0xd0, 0, 0, 0, 0, 0, 0};
		to[11] = 1;
		memcpy(to + at, opt, sizeof opt);
		at += sizeof opt;
	}
	return at;
}

static void read_names(const char *path) {
	char name[256], type[16];
	FILE *f = fopen(path, "r");
	if (f == NULL)
		die(path);
	queries = calloc(MAX_NAMES, sizeof *queries);
	while (known < MAX_NAMES && fscanf(f, "%255s %15s", name, type) == 2) {
		queries[known].len = build(queries[known].wire, name, strcmp(type, "AAAA") == 0 ? 28 : 1);
		if (queries[known].len > 0)
			known++;
	}
	fclose(f);
	if (known == 0) {
		fprintf(stderr, "load: %s: no line like \"name A\"\n", path);
		exit(1);
	}
}

static struct query once;       /* with -u: its first label is replaced */
static uint64_t once_count, first;

/* ask copies the i-th question. */
static unsigned ask(unsigned char *to, uint64_t i) {
	static const char digits[] = "0123456789abcdef";
	if (once_count == 0) {
		const struct query *q = &queries[i % known];
		memcpy(to, q->wire, q->len);
		return q->len;
	}
	memcpy(to, once.wire, once.len);
	uint64_t n = first + i;
	for (int d = 8; d > 0; d--, n >>= 4)
		to[12 + d] = (unsigned char)digits[n & 15];
	return once.len;
}

/* --- what came of it ----------------------------------------------------- */

static uint64_t sent, answered, late, bad, lost;
static nanos lost_after = 500000000u;

/* Latencies, in classes 1/32 wide: 64 powers of two, 32 classes in each. */
static uint64_t classes[64 * 32];

static void took(nanos d) {
	unsigned power = 0;
	if (d >= 32)
		power = 58 - (unsigned)__builtin_clzll(d); /* d >> power is 32..63 */
	classes[(power + (d >= 32)) * 32 + ((d >> power) & 31)]++;
}

static double percentile(double share) {
	uint64_t all = 0, seen = 0;
	for (unsigned i = 0; i < 64 * 32; i++)
		all += classes[i];
	if (all == 0)
		return 0;
	uint64_t want = (uint64_t)(share * (double)(all - 1)) + 1;
	for (unsigned i = 0; i < 64 * 32; i++) {
		seen += classes[i];
		if (seen >= want) {
			double low = i % 32, width = 1;
			if (i >= 32) {
				low += 32;
				width = (double)(1ull << (i / 32 - 1));
			}
			return (low + 0.5) * width / 1000;
		}
	}
	return 0;
}

/* --- a socket and what it has out ---------------------------------------- */

struct slot {
	nanos due; /* 0: not out */
	uint16_t id;
};

struct sock {
	int fd;
	unsigned out;
	uint16_t next, oldest;
	struct slot *slots;
};

static struct sock socks[MAX_SOCKETS];
static unsigned mask; /* of the ring of slots */

static unsigned char tx_bytes[BATCH][MAX_QUERY], rx_bytes[BATCH][ROOM];
static struct iovec tx_io[BATCH], rx_io[BATCH];
static struct mmsghdr tx[BATCH], rx[BATCH];

static void forget(struct sock *s, struct slot *slot) {
	slot->due = 0;
	s->out--;
	lost++;
}

/* send_batch asks n questions from number i on; what the kernel did not take is not asked. */
static unsigned send_batch(struct sock *s, unsigned n, uint64_t i, const nanos *due) {
	for (unsigned k = 0; k < n; k++) {
		tx_io[k].iov_len = ask(tx_bytes[k], i + k);
		uint16_t id = (uint16_t)(s->next + k);
		tx_bytes[k][0] = (unsigned char)(id >> 8);
		tx_bytes[k][1] = (unsigned char)id;
	}
	int took_n = sendmmsg(s->fd, tx, n, 0);
	for (int k = 0; k < took_n; k++) {
		struct slot *slot = &s->slots[s->next & mask];
		if (slot->due != 0) /* the ring is full: its oldest will not be answered any more */
			forget(s, slot);
		slot->due = due[k];
		slot->id = s->next++;
		s->out++;
	}
	if (took_n > 0)
		sent += (uint64_t)took_n;
	return took_n > 0 ? (unsigned)took_n : 0;
}

static int receive(struct sock *s) {
	int n = recvmmsg(s->fd, rx, BATCH, MSG_DONTWAIT, NULL);
	nanos at = n > 0 ? now() : 0;
	for (int k = 0; k < n; k++) {
		const unsigned char *m = rx_bytes[k];
		if (rx[k].msg_len < 12 || !(m[2] & 0x80)) {
			bad++;
			continue;
		}
		uint16_t id = (uint16_t)(m[0] << 8 | m[1]);
		struct slot *slot = &s->slots[id & mask];
		if (slot->due == 0 || slot->id != id) {
			late++;
			continue;
		}
		took(at > slot->due ? at - slot->due : 0);
		slot->due = 0;
		s->out--;
		if ((m[3] & 15) != 0 || (m[6] == 0 && m[7] == 0))
			bad++;
		else
			answered++;
	}
	return n;
}

/* expire gives up what is out for too long, oldest first. */
static void expire(struct sock *s, nanos at) {
	while (s->oldest != s->next) {
		struct slot *slot = &s->slots[s->oldest & mask];
		if (slot->due != 0 && slot->id == s->oldest) {
			if (at < slot->due + lost_after)
				return;
			forget(s, slot);
		}
		s->oldest++;
	}
}

/* --- the two loops -------------------------------------------------------- */

static void closed(unsigned sockets, unsigned window, nanos until, struct pollfd *ready) {
	nanos due[BATCH];
	uint64_t i = 0;
	for (;;) {
		nanos at = now();
		unsigned out = 0;
		int busy = 0;
		if (at >= until)
			return;
		for (unsigned k = 0; k < BATCH; k++)
			due[k] = at;
		for (unsigned k = 0; k < sockets; k++) {
			struct sock *s = &socks[k];
			while (s->out < window && (once_count == 0 || i < once_count)) {
				unsigned n = window - s->out;
				if (n > BATCH)
					n = BATCH;
				if (once_count > 0 && n > once_count - i)
					n = (unsigned)(once_count - i);
				unsigned did = send_batch(s, n, i, due);
				i += did;
				busy |= did > 0;
				if (did < n)
					break;
			}
			busy |= receive(s) > 0;
			expire(s, at);
			out += s->out;
		}
		if (once_count > 0 && i >= once_count && out == 0)
			return;
		if (!busy)
			poll(ready, sockets, 1);
	}
}

static void paced(unsigned sockets, double rate, nanos begin, nanos until, struct pollfd *ready) {
	double gap = 1e9 / rate;
	nanos due[BATCH];
	uint64_t i = 0;
	for (unsigned turn = 0;; turn++) {
		nanos at = now();
		if (at >= until || (once_count > 0 && i >= once_count))
			return;
		unsigned n = 0;
		for (; n < BATCH && begin + (nanos)((double)(i + n) * gap) <= at; n++)
			due[n] = begin + (nanos)((double)(i + n) * gap);
		if (n > 0) {
			struct sock *s = &socks[turn % sockets];
			i += send_batch(s, n, i, due);
			expire(s, at);
		}
		nanos next = begin + (nanos)((double)i * gap);
		at = now();
		nanos wait = next > at ? next - at : 0;
		struct timespec t = {.tv_sec = (time_t)(wait / 1000000000u), .tv_nsec = (long)(wait % 1000000000u)};
		if (ppoll(ready, sockets, &t, NULL) > 0)
			for (unsigned k = 0; k < sockets; k++)
				if (ready[k].revents)
					while (receive(&socks[k]) == BATCH)
						;
	}
}

/* drain waits a moment for what is still out: the end of the run is nobody's loss. */
static void drain(unsigned sockets, struct pollfd *ready) {
	for (nanos end = now() + 200000000u; now() < end;) {
		unsigned out = 0;
		for (unsigned k = 0; k < sockets; k++) {
			receive(&socks[k]);
			out += socks[k].out;
		}
		if (out == 0)
			return;
		poll(ready, sockets, 5);
	}
	for (unsigned k = 0; k < sockets; k++)
		lost += socks[k].out;
}

int main(int argc, char **argv) {
	const char *names = NULL, *suffix = NULL, *address = "127.0.0.1";
	unsigned sockets = 16, window = 64;
	double seconds = 3, rate = 0;
	int port = 0;
	for (int opt; (opt = getopt(argc, argv, "a:p:n:d:s:w:r:u:o:z:e")) != -1;) {
		switch (opt) {
		case 'a': address = optarg; break;
		case 'p': port = atoi(optarg); break;
		case 'n': names = optarg; break;
		case 'd': seconds = atof(optarg); break;
		case 's': sockets = (unsigned)atoi(optarg); break;
		case 'w': window = (unsigned)atoi(optarg); break;
		case 'r': rate = atof(optarg); break;
		case 'u': once_count = strtoull(optarg, NULL, 10); break;
		case 'o': first = strtoull(optarg, NULL, 10); break;
		case 'z': suffix = optarg; break;
		case 'e': edns = 1; break;
		default: return 2;
		}
	}
	if (port == 0 || sockets == 0 || sockets > MAX_SOCKETS || window == 0 || window > 16384 || (names == NULL) == (suffix == NULL) || (suffix != NULL) != (once_count > 0)) {
		fprintf(stderr, "usage: load -p PORT (-n NAMES | -u COUNT -z SUFFIX) [-d SECONDS] [-s SOCKETS] [-w WINDOW | -r RATE] [-o FIRST] [-e]\n");
		return 2;
	}
	if (names != NULL)
		read_names(names);
	else {
		char name[256];
		snprintf(name, sizeof name, "00000000.%s", suffix);
		once.len = build(once.wire, name, 1);
		lost_after = 2000000000u;
	}
	unsigned ring = 256;
	while (ring < 4 * window || (rate > 0 && ring < 8192))
		ring *= 2;
	mask = ring - 1;
	prctl(PR_SET_TIMERSLACK, 1000); /* or a question due in 200 us is asked 50 us late */

	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = inet_addr(address)};
	struct pollfd ready[MAX_SOCKETS];
	for (unsigned k = 0; k < sockets; k++) {
		struct sock *s = &socks[k];
		int room = 4 << 20;
		s->fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
		setsockopt(s->fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
		if (s->fd < 0 || connect(s->fd, (struct sockaddr *)&to, sizeof to) != 0)
			die("load: connect");
		s->slots = calloc(ring, sizeof *s->slots);
		ready[k] = (struct pollfd){.fd = s->fd, .events = POLLIN};
	}
	for (unsigned k = 0; k < BATCH; k++) {
		tx_io[k].iov_base = tx_bytes[k];
		tx[k].msg_hdr.msg_iov = &tx_io[k];
		tx[k].msg_hdr.msg_iovlen = 1;
		rx_io[k] = (struct iovec){.iov_base = rx_bytes[k], .iov_len = ROOM};
		rx[k].msg_hdr.msg_iov = &rx_io[k];
		rx[k].msg_hdr.msg_iovlen = 1;
	}

	nanos begin = now(), until = begin + (nanos)(seconds * 1e9);
	if (rate > 0)
		paced(sockets, rate, begin, until, ready);
	else
		closed(sockets, window, until, ready);
	double took_s = (double)(now() - begin) / 1e9;
	drain(sockets, ready);
	printf("{\"sent\":%lu,\"answered\":%lu,\"late\":%lu,\"bad\":%lu,\"lost\":%lu,\"seconds\":%.6f,\"p50\":%.1f,\"p99\":%.1f,\"p999\":%.1f,\"max\":%.1f}\n",
	       sent, answered, late, bad, lost, took_s, percentile(.5), percentile(.99), percentile(.999), percentile(1));
	return 0;
}

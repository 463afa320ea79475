/* Looks a new name up with getaddrinfo every EVERY_MS milliseconds, each in a
 * thread of its own, as a program does that serves many requests, and prints
 *
 *     START END NAME RESULT
 *
 * with times in microseconds since 1970 and a result that is "ok" or one word.
 * With FAMILY=4 it asks for IPv4 addresses only: one question for each lookup. */
#define _GNU_SOURCE
#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static int family = AF_UNSPEC;

static long long now_us(void)
{
	struct timespec t;
	clock_gettime(CLOCK_REALTIME, &t);
	return t.tv_sec * 1000000LL + t.tv_nsec / 1000;
}

static const char *word(int code)
{
	switch (code) {
	case 0: return "ok";
	case EAI_AGAIN: return "EAI_AGAIN";
	case EAI_FAIL: return "EAI_FAIL";
	case EAI_NONAME: return "EAI_NONAME";
	case EAI_SYSTEM: return "EAI_SYSTEM";
#ifdef EAI_NODATA
	case EAI_NODATA: return "EAI_NODATA";
#endif
	}
	return "other";
}

static void *lookup(void *arg)
{
	char *name = arg, line[512];
	struct addrinfo hints, *found = NULL;
	memset(&hints, 0, sizeof hints);
	hints.ai_family = family;
	hints.ai_socktype = SOCK_STREAM;
	long long start = now_us();
	int code = getaddrinfo(name, "443", &hints, &found);
	long long end = now_us();
	if (code == 0)
		freeaddrinfo(found);
	int n = snprintf(line, sizeof line, "%lld %lld %s %s\n", start, end, name, word(code));
	if (write(1, line, n) != n) /* one write: lines of threads do not mix */
		_exit(1);
	free(name);
	return NULL;
}

int main(void)
{
	const char *suffix = getenv("SUFFIX"), *every = getenv("EVERY_MS"), *f = getenv("FAMILY");
	if (!suffix || !every) {
		fprintf(stderr, "set SUFFIX and EVERY_MS\n");
		return 2;
	}
	if (f && strcmp(f, "4") == 0)
		family = AF_INET;
	long ms = atol(every);
	pthread_attr_t attr;
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, 512 * 1024);
	struct timespec next;
	clock_gettime(CLOCK_MONOTONIC, &next);
	for (long i = 0;; i++) {
		char *name = malloc(256);
		pthread_t t;
		snprintf(name, 256, "q%ld.%s", i, suffix);
		if (pthread_create(&t, &attr, lookup, name) != 0) {
			fprintf(stderr, "no thread for %s\n", name);
			return 1;
		}
		next.tv_nsec += ms % 1000 * 1000000;
		next.tv_sec += ms / 1000 + next.tv_nsec / 1000000000;
		next.tv_nsec %= 1000000000;
		while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL) != 0)
			;
	}
}

/*
 * lookup NAME: looks a name up with the C library's getaddrinfo, as most
 * programs do, and prints its addresses as `getent ahosts` does. It exits with
 * 2 when there are none, and says why.
 */
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

int main(int argc, char **argv)
{
	struct addrinfo hints, *list, *a;
	char text[128];
	int error;

	if (argc != 2) {
		fprintf(stderr, "usage: %s NAME\n", argv[0]);
		return 64;
	}
	memset(&hints, 0, sizeof hints);
	hints.ai_socktype = SOCK_STREAM;
	error = getaddrinfo(argv[1], NULL, &hints, &list);
	if (error) {
		fprintf(stderr, "%s: %s\n", argv[1], gai_strerror(error));
		return 2;
	}
	for (a = list; a; a = a->ai_next)
		if (!getnameinfo(a->ai_addr, a->ai_addrlen, text, sizeof text, NULL, 0, NI_NUMERICHOST))
			printf("%s STREAM %s\n", text, a == list ? argv[1] : "");
	freeaddrinfo(list);
	return 0;
}

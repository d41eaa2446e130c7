from tq_celery import tenant


def tenant_middleware(get_response):
    def middleware(request):
        with tenant(getattr(request.user, "account_id", None)):
            return get_response(request)

    return middleware
